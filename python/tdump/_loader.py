"""Brings tdump into a Python process. The entry point calls start() once, at the end of ``import torch``."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent


def start() -> None:
    """Opens libtdump.so and, where it matches the torch in this process, the collectors; installs the hooks."""
    if os.environ.get("TDUMP_DISABLE") == "1" or not _is_ours():
        return
    folder = _library_folder()
    runtime = ctypes.CDLL(str(folder / "libtdump.so"))
    if not runtime.tdump_runtime_start():
        return
    import torch

    matches = runtime.tdump_runtime_check_torch(torch.__version__.encode(), int(torch._C._GLIBCXX_USE_CXX11_ABI))
    if not matches:
        _announce_first_call(runtime)
        return
    runtime.tdump_runtime.restype = ctypes.c_void_p
    collectors = ctypes.CDLL(str(folder / "libtdump_torch.so"))
    collectors.tdump_torch_start.argtypes = [ctypes.c_void_p]
    if not collectors.tdump_torch_start(runtime.tdump_runtime()):
        return
    from tdump import _hooks, _naming

    _naming.remark = lambda text: runtime.tdump_runtime_remark(text.encode())
    _hooks.install()


def _is_ours() -> bool:
    """With ``tdump-run --no-children`` only the process that tdump-run became is recorded."""
    return os.environ.get("TDUMP_CHILDREN") != "0" or os.environ.get("TDUMP_LAUNCHED") == str(os.getpid())


def _library_folder() -> Path:
    """The folder of libtdump.so: in the package (pip), beside it (build tree), above it (cmake --install)."""
    above = Path(__file__).absolute().parents[2]  # links to the sources, as the build tree has them, are not followed
    places = (_PACKAGE / "lib" / "tdump", _PACKAGE / "lib", above / "lib", above)
    for place in places:
        if (place / "libtdump.so").exists():
            return place
    raise FileNotFoundError(f"libtdump.so in none of {', '.join(map(str, places))}")


def _announce_first_call(runtime: Any) -> None:
    """The collectors cannot be opened: the first module call still tells who this process is, so that the coverage of
    the run can say what is missing."""
    from torch.nn.modules.module import register_module_forward_pre_hook

    def told(module: Any, args: Any) -> None:
        handle.remove()
        runtime.tdump_on_first_operator()

    handle = register_module_forward_pre_hook(told)
