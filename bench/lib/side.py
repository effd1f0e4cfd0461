"""Two jobs that take turns: the same program with and without tdump, alive at the same time, one running at a time.

A turn is a few steps in a row. It ends for a side when its steps are done, and the other may begin when the side's
threads are idle: what tdump's writer still has to do neither slows the other side nor is lost from the record.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lib.build import environment

_IDLE_S = 0.02  # a process that uses no CPU for that long is idle
_IDLE_NS = 500_000  # but this much
_PATIENCE_S = 120


class JobError(Exception):
    """A measured job did not do what it was told; says what it printed."""


@dataclass
class Turn:
    wall: float  # seconds
    cpu: float  # of the calling thread
    drained: float  # seconds until every thread of the job was idle


class Side:
    """One measured process. `leaves`: folder whose files are removed after each turn, so that what a turn
    writes through the page cache need not reach the disk."""

    def __init__(self, name: str, command: Sequence[str], cwd: Path, leaves: Path) -> None:
        self.name = name
        self.watched = Path(command[0]).name == "tdump-run"
        self.leaves = leaves
        self.kept = 0  # bytes of what was removed
        self.steps = 0
        self._errors = (cwd / f"{name}.stderr").open("w+b")
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        self._expect("ready")
        self._settle()
        self._remove()
        self.kept = 0

    def turn(self, steps: int, before: int = 0) -> Turn:
        """`before`: steps that are done first and not measured; only jobs in Python (jobs/turns.py) do any."""
        began = time.perf_counter()
        self._process.stdin.write(f"{steps} {before}\n" if before else f"{steps}\n")
        self._process.stdin.flush()
        words = self._answer().split()
        if len(words) != 2:
            raise self._failure(f"answered {' '.join(words)!r} to {steps} steps")
        self._settle()
        drained = time.perf_counter() - began - _IDLE_S
        self._remove()
        self.steps += steps + before
        wall, cpu = (int(word) / 1e9 for word in words)
        return Turn(wall, cpu, max(drained, wall))

    def peak_memory(self) -> int:
        """Most bytes resident since the last call of forget_peak."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise self._failure("has no VmHWM")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def close(self) -> None:
        """Ends the job in the regular way."""
        self._process.stdin.close()
        status = self._process.wait(_PATIENCE_S)
        if status != 0:
            raise self._failure(f"ended with status {status}")

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def errors(self) -> str:
        self._errors.flush()
        self._errors.seek(0)
        return self._errors.read().decode(errors="backslashreplace")

    def _failure(self, what: str) -> JobError:
        return JobError(f"{self.name} {what}\n{self.errors().strip()[-4000:]}")

    def _answer(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(_PATIENCE_S)
            raise self._failure(f"ended early with status {self._process.returncode}")
        return line.strip()

    def _expect(self, word: str) -> None:
        answer = self._answer()
        if answer != word:
            raise self._failure(f"answered {answer!r}, expected {word!r}")

    def _threads(self) -> tuple[int, bool]:
        """Nanoseconds of CPU time of all threads, and whether one waits for the disk."""
        total, waits = 0, False
        for task in os.scandir(f"/proc/{self.pid}/task"):
            try:
                total += int(Path(task.path, "schedstat").read_text().split()[0])
                waits |= Path(task.path, "stat").read_text().rpartition(")")[2].split()[0] == "D"
            except (FileNotFoundError, ProcessLookupError):  # the thread has ended
                continue
        return total, waits

    def _settle(self) -> None:
        end = time.monotonic() + _PATIENCE_S
        before, _ = self._threads()
        while time.monotonic() < end:
            time.sleep(_IDLE_S)
            now, waits = self._threads()
            if now - before < _IDLE_NS and not waits:
                return
            before = now
        raise self._failure(f"was busy for {_PATIENCE_S} s after its turn")

    def _remove(self) -> None:
        """Finished passes of tdump, or whatever another dumper left."""
        for path in list(self.leaves.rglob("*")):
            if path.is_file() and path.suffix not in (".tdm", ".part", ".yaml"):
                self.kept += path.stat().st_size
                path.unlink()


def clear(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
