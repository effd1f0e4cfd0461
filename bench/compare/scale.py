"""Many ranks of which shapes and hashes were kept, or small values: pairing and verdict."""

from __future__ import annotations

import shutil
from pathlib import Path
from statistics import median

from compare.processes import THREADS, run
from lib.intervals import bootstrap
from lib.measurement import Bench, Measurement
from lib.rows import Row
from lib.side import JobError

BYTES_PER_RECORD = 600  # with its share of calls and names
BYTES_WITH_VALUES = 850


def need_room(bench: Bench, records: int, bytes_per_record: int = BYTES_PER_RECORD) -> None:
    needed = records * bytes_per_record
    if shutil.disk_usage(bench.work).free < 1.2 * needed:
        raise JobError(f"{bench.work} needs {needed >> 20:,} MiB free: name another disk with --work")


def measure(bench: Bench, a: Path, b: Path, rows: list[Row], what: str) -> None:
    """The time of the diff of two runs that differ, and its peak memory, into two rows."""
    command = [bench.build.tool("tdump-diff"), str(a), str(b), "-j", str(THREADS), "--quiet"]
    first = run(command, allowed=(1,))
    ended = [run(command, allowed=(1,)) for _ in range(2 if bench.quick else 3)]
    times = [turn.seconds for turn in ended]
    rows[0].value, rows[0].interval = median(times), bootstrap([times])
    rows[0].note = f"{what}; {first.seconds:.1f} s the first time"
    rows[1].value = max(turn.peak_bytes for turn in ended) / 2**20


def ranks(bench: Bench, rows: list[Row]) -> None:
    world, steps, records = (80, 2, 61) if bench.quick else (1024, 20, 1501)
    need_room(bench, world * steps * records)
    job, a, b = bench.build.job("runs"), bench.work / "ranks_a", bench.work / "ranks_b"
    shape = [str(world), str(steps), str(records)]
    run([job, "ranks", str(a), *shape])
    run([job, "ranks", str(b), *shape, str(a)])
    measure(bench, a, b, rows, f"{world} ranks x {steps} steps x {records} records")


def one_against_many(bench: Bench, rows: list[Row]) -> None:
    world, records = (80, 61) if bench.quick else (1024, 1501)
    need_room(bench, world * records)
    job, one, many = bench.build.job("runs"), bench.work / "one", bench.work / "many"
    run([job, "ranks", str(one), "1", "1", str(records)])
    run([job, "ranks", str(many), str(world), "1", str(records)])
    measure(bench, one, many, rows, f"1 rank against {world} x 1 step x {records} records, all of which differ")


def copies(bench: Bench, rows: list[Row]) -> None:
    world, records = (80, 61) if bench.quick else (1024, 1501)
    need_room(bench, world * records, BYTES_WITH_VALUES)
    job, one, many = bench.build.job("runs"), bench.work / "copy", bench.work / "copies"
    run([job, "copies", str(one), "1", str(records)])
    run([job, "copies", str(many), str(world), str(records)])
    measure(bench, one, many, rows, f"1 rank against {world} x {records} records of 32 bytes, all of which differ")


RANKS = Measurement(
    [
        Row("1,024 ranks x 20 steps x 1,500 records", "s", "pairing and verdict", must=60, aim=15),
        Row("peak memory of that diff, many ranks", "MiB", "2 GiB", must=2048),
    ],
    ranks,
)

ONE_AGAINST_MANY = Measurement(
    [
        Row("1 rank against 1,024, one step of 1,500 records", "s", "pairing and verdict", must=60),
        Row("peak memory of that diff, ranks put together", "MiB", "512 MiB", must=512),
    ],
    one_against_many,
)

COPIES = Measurement(
    [
        Row("1 rank against 1,024, with values of 32 bytes", "s", "pairing, metrics and verdict", must=120),
        Row("peak memory of that diff, copies with values", "MiB", "512 MiB", must=512),
    ],
    copies,
)
