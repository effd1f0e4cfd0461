"""What a job may call. Nothing here imports torch or tdump's extension: where tdump does not run, all is a no-op, and
nothing here ever raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tdump._ranks import Ranks

T = TypeVar("T")
PHASES = ("forward", "backward", "both")

_collector: Any = None  # tdump._hooks, once its hooks are installed


def step(number: int | None = None) -> None:
    """A step of the job begins here. ``number`` is the job's own count, where it has one.

    With ``steps: {boundary: explicit}``, or with ``auto`` from the first call on, these are the steps; any other
    boundary keeps its own and takes the number.
    """
    if _collector is not None:
        _collector.step(number)


def tap(tensor: T, name: str, *tags: str, phase: str = "both", ranks: Ranks = None, full: bool = False) -> T:
    """Records ``tensor`` as it is now, under ``name`` below the module that is being called; returns ``tensor`` itself.

    Tuples, dicts and the like are recorded tensor by tensor. ``tags`` are kept with the call. The rules decide what is
    kept: of the value (role ``output``), and of its gradient when that arrives (``grad_output``). ``phase="forward"``
    leaves out the gradient, ``"backward"`` the value. ``ranks``: a number, a set of numbers, or all.

    A function in place of a tensor is called for it in steps that are recorded, without gradients; not in a region that
    is compiled, where it would be part of the job's graph, and not with ``full``. Of a DTensor each
    rank records its own part; ``full=True`` records the value of the whole, without its gradient. To put it together
    all ranks communicate, so each has to come here in every step, whatever ``ranks`` says.

    In a region that ``torch.compile`` compiles this needs ``compile: {taps: on}``; there and where a program is
    exported or traced otherwise, the coverage says what is not recorded.
    """
    if _collector is not None:
        _collector.tap(tensor, name, tags, phase, ranks, full)
    return tensor


def tap_grad(tensor: T, name: str, *tags: str, ranks: Ranks = None) -> T:
    """Records the gradient of ``tensor`` when it arrives, as ``grad_output`` of the tap ``name``: the backward half of
    ``tap``. Where the tensor needs none, or the rule for this tap asks for no ``grad_output``, the coverage says so;
    where no rule is for it at all, nothing does. Returns ``tensor``."""
    return tap(tensor, name, *tags, phase="backward", ranks=ranks)


def watch(module: Any, name: str | None = None) -> None:
    """Gives ``module`` and its parts their names now, before the first call; with ``name``, that stands before them, as
    if the module had no owner."""
    if _collector is not None:
        _collector.watch(module, name)


class log:  # noqa: N801, a function to those who call it
    """From here on the rules keep, of every tensor that they want values of, what ``stat`` makes of it in place of the
    values, and where they want its shape alone beside that. Ends with ``remove()``, or with a ``with`` block.

    ``stat`` is given the tensor, detached, and gives a number, a tensor, a list of numbers, a dict of such by name, or
    None; it must not change what it is given. What it makes is recorded beside the tensor, as ``stat`` or ``stat.NAME``
    behind the name of the argument. Where it raises, the coverage says so and only the shape is kept.
    """

    def __init__(self, stat: Callable[[Any], Any]) -> None:
        if _collector is not None:
            _collector.add_summary(self, stat)

    def remove(self) -> None:
        if _collector is not None:
            _collector.remove_summary(self)

    def __enter__(self) -> log:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()
