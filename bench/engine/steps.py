"""Ratios of a step with capture to the plain step, two processes taking turns."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from lib.build import JOBS
from lib.measurement import Bench, Measurement, NotRun
from lib.pairs import Pairs, means, rotate, take
from lib.rows import Row
from lib.side import JobError, Side

LEAVES = "steps: all\noutput: {limit: 40GB}\ncapture: [{leaf: true, level: %s}]\n"
ATEN = "steps: all\noutput: {limit: 40GB}\ncollect: {aten: on}\ncapture: [{leaf: true, level: full}]\n"
TRAINING = (
    "steps: all\noutput: {limit: 40GB}\ncapture:\n"
    "  - {leaf: true, level: full}\n"
    "  - {leaf: true, role: [grad_input, grad_output, param_grad], phase: [forward, backward], level: full}\n"
)
IDLE_SIDES = (
    # A step is recorded first, so that what idles is a collector that has worked.
    ("armed", "steps: [0, 1000000]\ncapture: [{leaf: true, level: full}]\n"),
    ("loaded", "steps: all\nranks: 1\ncapture: [{leaf: true, level: full}]\n"),
    ("again", None),
)


@dataclass
class Amount:
    """Of measuring: pairs of turns in all, each of so many steps, over so many pairs of processes."""

    pairs: int
    steps: int
    processes: int = 1

    def of(self, bench: Bench) -> Amount:
        return Amount(2, 2) if bench.quick else self


SOME = Amount(pairs=48, steps=3, processes=8)

# Two processes of one program differ by up to 2 % from each other for as long as they live (where their memory
# lies), so what costs less than that takes many processes, few pairs of each, and short steps.
PROCESSES, PAIRS_OF_A_PROCESS = 40, 5

# Where data lie within pages makes parts of a per cent too, and that is the same in all processes of a command: what is
# allocated before them decides (Mytkowicz et al. 2009, "Producing wrong data without doing anything obviously wrong").
# So each process of the idle rows moves its model by another amount.
SHIFTS = range(1 << 20, (1 << 20) + (1 << 16), 64)

# Of the job whose idle cost is measured. What a step allocates there ends near the size from which glibc gives the end
# of the heap back to the system and asks for it anew, about 90 page faults a step. Small allocations that stay, of any
# library, put a process on one side of it or the other. Neither gives anything back (docs/performance.md, "Method").
STEADY_HEAP = (
    "env",
    "MALLOC_MMAP_THRESHOLD_=1000000000",
    "MALLOC_TRIM_THRESHOLD_=2000000000",
    "MALLOC_TOP_PAD_=67108864",
)

# The module hooks are taken away after 16 steps of which none was recorded.
UNTIL_HOOKS_REST = 20


def encoder(bench: Bench, *words: str) -> list[str]:
    model = ("--model", "small", "--batch", "2", "--tokens", "32") if bench.quick else ("--model", "minilm")
    return [bench.build.python, str(JOBS / "encoder.py"), *model, *words]


def training(bench: Bench) -> list[str]:
    return [bench.build.job("training")]


Command = Callable[[Bench, str], list[str]]


def compare(bench: Bench, judged: Command, against: list[str], amount: Amount) -> tuple[Pairs, Side]:
    """`judged` is given the name of the folder it writes to."""
    amount = amount.of(bench)
    parts = []
    for number in range(amount.processes):
        name = f"judged{number}"
        ours, plain = bench.side(name, judged(bench, name)), bench.side(f"plain{number}", against)
        with bench.sides(ours, plain):
            parts.append(take(ours, plain, amount.pairs // amount.processes, amount.steps))
    return Pairs.join(parts), ours


def fill(row: Row, pairs: Pairs) -> None:
    row.value, row.interval, row.cpu = pairs.wall, pairs.wall_interval, pairs.cpu


def kept(side: Side) -> str:
    """What a step left, for the note; a dumper that dumps nothing measures nothing."""
    if side.kept == 0:
        raise JobError(f"{side.name} wrote no pass\n{side.errors().strip()}")
    return f"{side.kept / max(side.steps, 1) / 2**20:,.1f} MiB a step"


def captured(rows: list[Row], job: Callable[[Bench], list[str]], config: str) -> Measurement:
    """A capture that writes. A second row is the calling thread's CPU time of the same pairs."""

    def measure(bench: Bench, rows: list[Row]) -> None:
        command = job(bench)
        pairs, side = compare(bench, lambda bench, name: bench.tdump(name, config, command), command, SOME)
        fill(rows[0], pairs)
        rows[0].note = f"{kept(side)}; with the writer's backlog {pairs.drained:.3f}"
        for row in rows[1:]:
            row.value, row.interval = pairs.cpu, pairs.cpu_interval

    return Measurement(rows, measure)


def idle(bench: Bench, rows: list[Row]) -> None:
    """Fills the rows of IDLE_SIDES, against two plain processes that are alive at the same time as theirs: the plain
    one, and the one of the last row, which itself stands against the first."""
    size = [] if bench.quick else ["--batch", "1", "--warm-up", str(UNTIL_HOOKS_REST)]
    job = [*STEADY_HEAP, *encoder(bench, *size)]
    processes, pairs = (1, 2) if bench.quick else (PROCESSES, PAIRS_OF_A_PROCESS)
    taken: list[list[Pairs]] = [[] for _ in rows]
    shifts = Random(1)
    for number in range(processes):
        commands = {}
        for name, config in (("plain", None), *IDLE_SIDES):
            command = [*job, "--shift", str(shifts.choice(SHIFTS))]
            folder = f"{name}{number}"
            commands[folder] = bench.tdump(folder, config, command) if config else command
        # Which one starts first changes: the first may get the better memory.
        names = list(commands)
        shift = number % len(names)
        started = {name: bench.side(name, commands[name]) for name in names[shift:] + names[:shift]}
        sides = [started[name] for name in names]
        with bench.sides(*sides):
            *parts, twice = rotate(sides[0], sides[1:], pairs)
        for part in parts:
            part.against = means(twice.against, twice.judged)
        for judged, part in zip(taken, (*parts, twice), strict=True):
            judged.append(part)
    for row, parts in zip(rows, taken, strict=True):
        joined = Pairs.join(parts)
        fill(row, joined)


def saver(bench: Bench, rows: list[Row]) -> None:
    pairs, side = compare(
        bench, lambda bench, name: encoder(bench, "--saver", str(bench.work / name)), encoder(bench), SOME
    )
    fill(rows[0], pairs)
    rows[0].note = kept(side)


def msprobe(bench: Bench, rows: list[Row]) -> None:
    folder = os.environ.get("MSPROBE_PATH")
    if not folder or not Path(folder, "msprobe").is_dir():
        raise NotRun(
            "MSPROBE_PATH names no folder with msprobe in it (pip install --target FOLDER mindstudio-probe; "
            "a folder of its own, since its requirements replace torch's neighbours)"
        )

    def command(bench: Bench, name: str) -> list[str]:
        settings = {
            "task": "tensor",
            "dump_path": str(bench.work / name),
            "rank": [],
            "step": [],
            "level": "L1",
            "tensor": {"scope": [], "list": [], "data_mode": ["forward", "output"]},
        }
        path = bench.work / f"{name}.json"
        path.write_text(json.dumps(settings))
        return ["env", f"PYTHONPATH={folder}", *encoder(bench, "--msprobe", str(path))]

    pairs, side = compare(bench, command, encoder(bench), Amount(pairs=40, steps=1))
    fill(rows[0], pairs)
    rows[0].note = kept(side)


PLAIN = "the plain step"
STEPS = [
    captured(
        [
            Row("MiniLM, leaf outputs full", "x", PLAIN, must=1.12, aim=1.05),
            Row("the same, CPU of the calling thread", "x", "its CPU in the plain step", must=1.06, aim=1.02),
        ],
        encoder,
        LEAVES % "full",
    ),
    captured([Row("MiniLM, leaf outputs stats", "x", PLAIN, must=1.12, aim=1.05)], encoder, LEAVES % "stats"),
    captured([Row("MiniLM, leaf outputs hash", "x", PLAIN, must=1.08, aim=1.04)], encoder, LEAVES % "hash"),
    captured([Row("MiniLM, ATen outputs full", "x", PLAIN, must=1.5, aim=1.25)], encoder, ATEN),
    Measurement([Row("forward hooks and torch.save", "x", PLAIN)], saver),
    Measurement([Row("msprobe, API outputs", "x", PLAIN)], msprobe),
    captured([Row("training, leaves and gradients full", "x", PLAIN, must=1.25, aim=1.12)], training, TRAINING),
    Measurement(
        [
            Row("armed, step not wanted", "x", PLAIN, must=1.01, aim=1.0),
            Row("loaded, rank not selected", "x", PLAIN, must=1.0, widest=0.02),
            Row("plain step twice", "x", PLAIN),
        ],
        idle,
    ),
]
