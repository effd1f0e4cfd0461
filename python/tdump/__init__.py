"""tdump: record what the operators of a distributed job computed, and read it back.

In a job: ``step``, ``tap``, ``tap_grad``, ``watch``, ``log``. They do nothing where tdump does not run or torch lacks.
To look at values while a program runs, with tdump or without: ``print``, ``inspector``, ``instrument``.
Afterwards: ``load_pass(file)`` for one pass, ``open(run)`` for a whole run (``tdump.reader``).

Importing this package loads neither numpy nor torch nor a compiled module; reading does, when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tdump._api import log as log
from tdump._api import step, tap, tap_grad, watch

if TYPE_CHECKING:
    from tdump._inspect import inspector as inspector
    from tdump._inspect import print as print
    from tdump._instrument import instrument as instrument
    from tdump.reader import (
        CallRecord,
        Damage,
        DamagedError,
        Pass,
        PassEntry,
        PassInfo,
        Record,
        Run,
        load_pass,
        open,
    )

__all__ = [
    "CallRecord",
    "Damage",
    "DamagedError",
    "Pass",
    "PassEntry",
    "PassInfo",
    "Record",
    "Run",
    "load_pass",
    "open",
    "step",
    "tap",
    "tap_grad",
    "watch",
]
# Not for `import *` (as log is not): they need torch, and print is Python's own there.
_NEEDS_TORCH = {"inspector": "tdump._inspect", "print": "tdump._inspect", "instrument": "tdump._instrument"}


def __getattr__(name: str) -> Any:
    if name not in __all__ and name not in _NEEDS_TORCH:
        raise AttributeError(f"module 'tdump' has no attribute {name!r}")
    module = importlib.import_module(_NEEDS_TORCH[name]) if name in _NEEDS_TORCH else _reader(name)
    return globals().setdefault(name, getattr(module, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_NEEDS_TORCH})


def _reader(wanted: str) -> Any:
    """``tdump.reader``, or what to do where its compiled half is missing."""
    import sys

    try:
        return importlib.import_module("tdump.reader")
    except ImportError as error:
        if "_io" not in str(error):
            raise
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise ImportError(
            f"tdump.{wanted} needs the compiled module tdump._io, which {__path__[0]} does not have for Python "
            f"{version} ({error}): build it with this Python (-DTDUMP_PYTHON_EXECUTABLE={sys.executable}) or install "
            "with 'pip install .'",
            name="tdump._io",
        ) from error
