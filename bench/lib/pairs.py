"""Pairs of turns of two sides, and their ratio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from statistics import median

from lib.intervals import bootstrap
from lib.side import Side, Turn

TRIES = 3


@dataclass
class Pairs:
    """Turns of the side that is judged, and those of the one it stands against, in pairs. `processes`: how many pairs
    each pair of processes gave, in order; they differ from each other more than the turns of one do."""

    judged: list[Turn]
    against: list[Turn]
    processes: list[int]

    @staticmethod
    def join(parts: Sequence[Pairs]) -> Pairs:
        return Pairs(
            list(chain.from_iterable(part.judged for part in parts)),
            list(chain.from_iterable(part.against for part in parts)),
            list(chain.from_iterable(part.processes for part in parts)),
        )

    def ratios(self, of: Callable[[Turn], float]) -> list[float]:
        return [of(a) / of(b) for a, b in zip(self.judged, self.against, strict=True)]

    @property
    def wall(self) -> float:
        return median(self.ratios(lambda turn: turn.wall))

    @property
    def wall_interval(self) -> tuple[float, float]:
        return self._interval(lambda turn: turn.wall)

    @property
    def cpu(self) -> float:
        return median(self.ratios(lambda turn: turn.cpu))

    @property
    def cpu_interval(self) -> tuple[float, float]:
        return self._interval(lambda turn: turn.cpu)

    @property
    def drained(self) -> float:
        return median(self.ratios(lambda turn: turn.drained))

    def _interval(self, of: Callable[[Turn], float]) -> tuple[float, float]:
        ratios = iter(self.ratios(of))
        return bootstrap([[next(ratios) for _ in range(count)] for count in self.processes])


def take(judged: Side, against: Side, pairs: int, steps: int) -> Pairs:
    """Turns in the order ABBA, so that neither side profits from being second."""
    taken = Pairs([], [], [pairs])
    for pair in range(pairs):
        for side in (judged, against) if pair % 2 == 0 else (against, judged):
            (taken.judged if side is judged else taken.against).append(side.turn(steps))
    return taken


def rotate(against: Side, judged: Sequence[Side], pairs: int) -> list[Pairs]:
    """Turns of one step of each of `judged` and of `against`. A pair has the fastest of TRIES turns of each side: what
    else the machine does only ever adds to a turn. The step of a job follows one of its own: one that is not measured
    goes before, or each would find in the caches what another process left there, which costs code that runs once a
    step most."""
    sides = [against, *judged]
    turns: dict[str, list[Turn]] = {side.name: [] for side in sides}
    for turn in range(pairs * TRIES):
        for index in _balanced(len(sides), turn):
            turns[sides[index].name].append(sides[index].turn(1, before=1))
    fastest = {name: [_fastest(of[i : i + TRIES]) for i in range(0, len(of), TRIES)] for name, of in turns.items()}
    return [Pairs(fastest[side.name], fastest[against.name], [pairs]) for side in judged]


def _balanced(count: int, row: int) -> list[int]:
    """A row of a square in which each follows each other equally often and none itself, for even counts
    (Williams 1949): caches are as the turn before left them."""
    zigzag = [(i + 1) // 2 if i % 2 else count - i // 2 for i in range(count)]
    return [(index + row) % count for index in zigzag]


def means(turns: Sequence[Turn], others: Sequence[Turn]) -> list[Turn]:
    """Between the turns of two processes of one program, one by one. Such processes differ by parts of a per cent for
    as long as they live; what is held against both is held against less of that."""
    return [
        Turn(*((getattr(a, field.name) + getattr(b, field.name)) / 2 for field in fields(Turn)))
        for a, b in zip(turns, others, strict=True)
    ]


def _fastest(turns: Sequence[Turn]) -> Turn:
    return Turn(*(min(getattr(turn, field.name) for turn in turns) for field in fields(Turn)))
