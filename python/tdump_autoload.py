"""Entry point of group ``torch.backends``: ``import torch`` calls load() when it is done.

Where tdump is not asked for, this file is all there is: three look-ups in the environment. Whatever goes wrong is
swallowed: an exception here would make ``import torch`` fail.
"""

import os


def load() -> None:
    env = os.environ
    if not (env.get("TDUMP_EFFECTIVE") or env.get("TDUMP_CONFIG") or env.get("TDUMP_DIR")):
        return
    try:
        from tdump import _loader

        _loader.start()
    except Exception as error:
        if env.get("TDUMP_LOG") == "debug":
            os.write(2, f"tdump: off, the loader failed: {error!r}\n".encode())
