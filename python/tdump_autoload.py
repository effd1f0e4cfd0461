"""Entry point of group ``torch.backends``: ``import torch`` calls load() when it is done.

Where tdump is not asked for, this file is all there is: three look-ups in the environment. Whatever goes wrong is
told, not raised: an exception here would make ``import torch`` fail.
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
        if env.get("TDUMP_LOG") == "debug" or _is_told(env):
            text = f"tdump: off, not loaded: {error!r}. The job goes on without it; install or build tdump again"
            os.write(2, f"{text}\n".encode())


def _is_told(env: "os._Environ[str]") -> bool:
    """The process that tdump-run became, of one rank only."""
    rank = next((env[key] for key in ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID") if key in env), "0")
    return rank == "0" and env.get("TDUMP_LAUNCHED") == str(os.getpid())
