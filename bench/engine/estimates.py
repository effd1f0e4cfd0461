"""What `tdump-run --estimate` says before a capture, against the capture."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from engine.steps import ATEN, LEAVES, TRAINING, Amount, compare, encoder, kept, training
from lib.build import environment
from lib.measurement import Bench, Measurement
from lib.rows import Row
from lib.side import JobError

# Of so many steps the first, which has more, is no part.
STEPS = 10_000
UNITS = {"%": 0.01, "us": 1e-6, "ms": 1e-3, "s": 1.0}
SOME = Amount(pairs=24, steps=3, processes=4)


@dataclass
class Estimate:
    records: int  # of a step
    bytes: float  # of a step
    added: float  # to a step: seconds where `in_time`, else a share of the plain step
    in_time: bool  # the step was too short to tell a share

    def slowdown(self, plain: float) -> float:
        """A share of the plain step, which takes so many seconds."""
        return self.added / plain if self.in_time else self.added

    @staticmethod
    def parse(text: str) -> Estimate:
        records = re.search(r"^  rank 0 +([\d,]+) records a step", text, re.M)
        total = re.search(r"^  in all .*\((\d+) bytes\) in [\d,]+ files", text, re.M)
        slowdown = re.search(r"^  slowdown +\+([\d.]+) (%|us|ms|s)", text, re.M)
        if not (records and total and slowdown):
            raise JobError(f"no estimate:\n{text}")
        added = float(slowdown[1]) * UNITS[slowdown[2]]
        return Estimate(int(records[1].replace(",", "")), int(total[1]) / STEPS, added, slowdown[2] != "%")


def estimate(bench: Bench, config: str, command: list[str]) -> Estimate:
    path = bench.config("estimate", config)
    done = subprocess.run(
        [bench.build.tool("tdump-run"), "-c", str(path), "--estimate", "--", *command],
        cwd=bench.work,
        env=environment({"TMPDIR": str(bench.work)}),
        input="4\n",
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise JobError(f"--estimate ended with status {done.returncode}\n{done.stderr.strip()}")
    return Estimate.parse(done.stdout)


def estimated(what: str, job: Callable[[Bench], list[str]], config: str) -> Measurement:
    config = config.replace("steps: all", f"steps: 0-{STEPS - 1}")

    def measure(bench: Bench, rows: list[Row]) -> None:
        command = job(bench)
        told = estimate(bench, config, command)
        pairs, side = compare(bench, lambda bench, name: bench.tdump(name, config, command), command, SOME)
        written = side.kept / max(side.steps, 1)
        rows[0].note = f"{told.records:,} records a step; {told.bytes:,.0f} bytes, written {kept(side)}"
        rows[0].value = told.bytes / written
        # What the thread of the job pays is what is estimated.
        plain = median(turn.cpu for turn in pairs.against) / SOME.of(bench).steps
        slowdown = told.slowdown(plain)
        rows[1].note = f"+{100 * slowdown:.1f} %, measured +{100 * (pairs.cpu - 1):.1f} %"
        rows[1].value = (1 + slowdown) / pairs.cpu

    return Measurement(
        [
            Row(f"estimate of bytes, {what}", "x", "the capture"),
            Row(f"estimate of the step, {what}", "x", "CPU of the calling thread in the capture"),
        ],
        measure,
    )


ESTIMATES = [
    estimated("MiniLM, leaf outputs full", encoder, LEAVES % "full"),
    estimated("MiniLM, leaf outputs stats", encoder, LEAVES % "stats"),
    estimated("MiniLM, ATen outputs full", encoder, ATEN),
    estimated("training, leaves and gradients full", training, TRAINING),
]
