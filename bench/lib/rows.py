"""A row of the table: a figure, what it stands against, and whether it reaches its target."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass
class Row:
    name: str
    unit: str  # "x" for a ratio
    against: str
    better: str = "lower"  # or "higher"
    must: float | None = None
    aim: float | None = None
    widest: float | None = None  # the interval must include `must` and be narrower than this
    group: str = ""
    value: float | None = None  # None: not measured, `note` says why
    interval: tuple[float, float] | None = None  # 95 %
    cpu: float | None = None  # the same ratio of the calling thread's CPU time
    note: str = ""

    @property
    def met(self) -> bool | None:
        """None: there is no target, or no figure. An interval counts from its better end."""
        if self.must is None or self.value is None:
            return None
        low, high = self.interval or (self.value, self.value)
        if self.widest is not None:
            return low <= self.must <= high and high - low < self.widest
        return low <= self.must if self.better == "lower" else high >= self.must

    def fields(self) -> dict[str, Any]:
        return {
            "group": self.group,
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "better": self.better,
            "against": self.against,
            "must": self.must,
            "aim": self.aim,
            "met": self.met,
            "interval": self.interval,
            "widest": self.widest,
            "cpu": self.cpu,
            "note": self.note,
        }


def as_json(rows: Sequence[Row]) -> str:
    return json.dumps([row.fields() for row in rows], indent=1) + "\n"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def _interval(row: Row) -> str:
    return "" if row.interval is None else f"{_number(row.interval[0])}-{_number(row.interval[1])}"


def _met(row: Row) -> str:
    return "not run" if row.value is None else {None: "", True: "met", False: "NOT MET"}[row.met]


_HEAD = ("", "value", "", "95 %", "must", "aim", "", "CPU", "against")


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        _number(row.value),
        row.unit,
        _interval(row),
        _number(row.must),
        _number(row.aim),
        _met(row),
        _number(row.cpu),
        row.against,
    )


def as_markdown(rows: Sequence[Row]) -> str:
    """For docs/performance.md."""
    head = ("What", "Figure", "", "95 %", "Must", "Aim", "", "CPU", "Against")
    lines = [head, ("---",) * len(head), *(_cells(row) for row in rows)]
    notes = [f"- {row.name}: {row.note}" for row in rows if row.note]
    return "\n".join([f"| {' | '.join(line)} |" for line in lines] + ["", *notes]) + "\n"


def as_table(rows: Sequence[Row]) -> str:
    head, lines = _HEAD, [_cells(row) for row in rows]
    widths = [max(len(line[i]) for line in (head, *lines)) for i in range(len(head))]
    text = [
        "  ".join(
            cell.ljust(width) if i in (0, 2, 6, 8) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (head, *lines)
    ]
    notes = [f"{row.name}: {row.note}" for row in rows if row.note]
    return "\n".join(text + ([""] + notes if notes else []))
