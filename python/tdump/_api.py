"""What a job may call. Nothing here imports torch or tdump's extension: where tdump does not run, all is a no-op."""

from __future__ import annotations

import sys
from typing import Any, TypeVar

T = TypeVar("T")


def _collector() -> Any:
    """The running extension module, None where tdump does not run in this process."""
    return sys.modules.get("tdump._torch")


def step(number: int | None = None) -> None:
    """A step of the job begins here. ``number`` is the job's own count, where it has one."""
    collector = _collector()
    if collector is not None:
        collector.boundary("step", 0, "", -1 if number is None else int(number))


def tap(tensor: T, name: str, *tags: str) -> T:
    """Records ``tensor`` as it is now, under ``name``; returns it."""
    return tensor


def watch(module: Any, name: str | None = None) -> None:
    """Gives ``module`` and its parts their names before the first call; ``name`` is put before them."""
