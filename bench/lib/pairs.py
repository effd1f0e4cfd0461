"""Pairs of turns of two sides, and their ratio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from lib.intervals import bootstrap
from lib.side import Side, Turn


@dataclass
class Pairs:
    """Turns of the side that is judged, and those of the one it stands against, in pairs."""

    judged: list[Turn]
    against: list[Turn]

    def ratios(self, of: Callable[[Turn], float]) -> list[float]:
        return [of(a) / of(b) for a, b in zip(self.judged, self.against, strict=True)]

    @property
    def wall(self) -> float:
        return median(self.ratios(lambda turn: turn.wall))

    @property
    def wall_interval(self) -> tuple[float, float]:
        return bootstrap(self.ratios(lambda turn: turn.wall))

    @property
    def cpu(self) -> float:
        return median(self.ratios(lambda turn: turn.cpu))

    @property
    def cpu_interval(self) -> tuple[float, float]:
        return bootstrap(self.ratios(lambda turn: turn.cpu))

    @property
    def drained(self) -> float:
        return median(self.ratios(lambda turn: turn.drained))


def take(judged: Side, against: Side, pairs: int, steps: int) -> Pairs:
    """Turns in the order ABBA, so that neither side profits from being second."""
    taken = Pairs([], [])
    for pair in range(pairs):
        for side in (judged, against) if pair % 2 == 0 else (against, judged):
            (taken.judged if side is judged else taken.against).append(side.turn(steps))
    return taken


def join(parts: Sequence[Pairs]) -> Pairs:
    return Pairs([t for part in parts for t in part.judged], [t for part in parts for t in part.against])
