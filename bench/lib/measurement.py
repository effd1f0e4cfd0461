"""A measurement: what fills one or more rows."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lib.build import Build, BuildError
from lib.rows import Row
from lib.side import JobError, Side, clear


class NotRun(Exception):
    """What a row stands against is not here; the row says so. No failure."""


@dataclass
class Bench:
    """What a measurement is given. `work`: an empty folder on the disk that is measured."""

    build: Build
    work: Path
    quick: bool
    _names: set[str] = field(default_factory=set)

    def config(self, name: str, text: str) -> Path:
        path = self.work / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    def tdump(self, name: str, config: str, command: Sequence[str]) -> list[str]:
        """`command` under tdump-run, writing to the folder `name`."""
        path = self.config(name, config)
        return [self.build.tool("tdump-run"), "-c", str(path), "-o", str(self.work / name), "--", *command]

    def side(self, name: str, command: Sequence[str]) -> Side:
        """A job that is measured; what it leaves in the folder `name` is removed after each turn."""
        return Side(name, command, self.work, leaves=self.work / name)

    @contextmanager
    def sides(self, *sides: Side) -> Iterator[None]:
        """Starts with all sides ready; leaves no process behind."""
        try:
            for side in sides:
                side.wait_until_ready()
            yield
            for side in sides:
                side.close()
                if side.watched and "tdump: on, " not in side.errors():
                    raise JobError(f"{side.name} ran without tdump:\n{side.errors().strip()}")
        finally:
            for side in sides:
                side.kill()


@dataclass
class Measurement:
    """`fill` sets the values of its own copy of `rows`, in that order."""

    rows: list[Row]
    fill: Callable[[Bench, list[Row]], None]


def run_all(bench: Bench, chosen: Sequence[tuple[str, Measurement]]) -> tuple[list[Row], bool]:
    """All rows, and whether one could not be measured that should be."""
    done: list[Row] = []
    failed = False
    for group, measurement in chosen:
        rows = copy.deepcopy(measurement.rows)
        began = time.monotonic()
        try:
            measurement.fill(bench, rows)
        except NotRun as reason:
            _give_up(rows, f"not run: {reason}")
        except (BuildError, JobError, OSError) as error:
            failed = True
            print(f"{rows[0].name}: {error}", file=sys.stderr)
            _give_up(rows, f"FAILED: {str(error).splitlines()[0]}")
        for row in rows:
            row.group = group
        done += rows
        for row in rows:
            value = "not run" if row.value is None else f"{row.value:.3f} {row.unit}"
            print(f"{time.monotonic() - began:6.1f} s  {row.name}: {value}", file=sys.stderr, flush=True)
        for left in bench.work.iterdir():
            clear(left) if left.is_dir() else left.unlink()
    return done, failed


def _give_up(rows: Sequence[Row], note: str) -> None:
    for row in rows:
        row.value = row.interval = row.cpu = None
        row.note = note
