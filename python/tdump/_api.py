"""What a job may call. Nothing here imports torch or tdump's extension: where tdump does not run, all is a no-op, and
nothing here ever raises."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")

_collector: Any = None  # tdump._hooks, once its hooks are installed


def step(number: int | None = None) -> None:
    """A step of the job begins here. ``number`` is the job's own count, where it has one.

    With ``steps: {boundary: explicit}``, or with ``auto`` from the first call on, these are the steps; any other
    boundary keeps its own and takes the number.
    """
    if _collector is not None:
        _collector.step(number)


def tap(tensor: T, name: str, *tags: str) -> T:
    """Records ``tensor`` as it is now, under ``name`` below the module that is being called; returns ``tensor`` itself.

    Tuples, dicts and the like are recorded tensor by tensor. ``tags`` are kept with the call. In a region that
    ``torch.compile`` compiles this needs ``compile: {taps: on}``; there and where a program is exported or traced
    otherwise, the coverage says what is not recorded.
    """
    if _collector is not None:
        _collector.tap(tensor, name, tags)
    return tensor


def watch(module: Any, name: str | None = None) -> None:
    """Gives ``module`` and its parts their names now, before the first call; with ``name``, that stands before them, as
    if the module had no owner."""
    if _collector is not None:
        _collector.watch(module, name)
