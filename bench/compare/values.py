"""Two large runs whose values are read: against the loop in torch that users write, and against cmp."""

from __future__ import annotations

import shutil
from pathlib import Path
from statistics import median

from compare.processes import THREADS, Ended, run
from lib.build import JOBS
from lib.intervals import bootstrap
from lib.measurement import Bench, Measurement, NotRun
from lib.rows import Row
from lib.side import JobError, clear

PAIRS = 5


def sizes(bench: Bench) -> tuple[int, int]:
    """MiB of a run, and how often each side is timed. Two runs at a time lie in the page cache."""
    mib = 64 if bench.quick else 4096
    free = shutil.disk_usage(bench.work).free >> 20
    if free < 3 * mib:
        raise JobError(f"{bench.work} has {free:,} MiB free, needs {3 * mib:,}: name another disk with --work")
    return mib, 2 if bench.quick else PAIRS


def write(bench: Bench, name: str, mib: int) -> Path:
    """A run; a list of its tensors lies beside it."""
    folder = bench.work / name
    done = run([bench.build.job("runs"), "values", str(folder), str(mib), name])
    folder.with_suffix(".tensors").write_text(done.output, encoding="utf-8")
    return folder


def diff(bench: Bench, a: Path, b: Path, *words: str) -> Ended:
    tool = bench.build.tool("tdump-diff")
    return run([tool, str(a), str(b), "-j", str(THREADS), "--quiet", *words], allowed=(0, 1))


def metrics(bench: Bench, rows: list[Row]) -> None:
    mib, pairs = sizes(bench)
    a, b = write(bench, "a", mib), write(bench, "b", mib)
    lists = [str(path.with_suffix(".tensors")) for path in (a, b)]
    loop = [bench.build.python, str(JOBS / "load_and_subtract.py"), str(THREADS), *lists]
    whole, ours, theirs = diff(bench, a, b), [], []  # the first ones fill the page cache
    run(loop)
    for pair in range(pairs):
        for side in ("diff", "loop") if pair % 2 == 0 else ("loop", "diff"):
            if side == "diff":
                whole = diff(bench, a, b)
                ours.append(whole.seconds)
            else:
                theirs.append(float(run(loop).output))
    ratios = [slow / fast for slow, fast in zip(theirs, ours, strict=True)]
    rate = 2 * mib / 1024 / median(theirs)
    rows[0].value, rows[0].interval = median(ratios), bootstrap([ratios])
    rows[0].note = f"2 x {mib} MiB in {median(ours):.2f} s; the loop reads {rate:.2f} GiB/s"
    rows[2].value = whole.peak_bytes / 2**20

    clear(b)
    shutil.copytree(a, b)
    diff(bench, a, b)
    shares = [diff(bench, a, b).seconds / median(ours) for _ in range(pairs)]
    rows[1].value, rows[1].interval = median(shares), bootstrap([shares])


def equal(bench: Bench, rows: list[Row]) -> None:
    mib, pairs = sizes(bench)
    cmp = shutil.which("cmp")
    if cmp is None:
        raise NotRun("there is no cmp here")
    a = write(bench, "a", mib)
    b = bench.work / "copy"
    shutil.copytree(a, b)
    files = [str(next(folder.glob("rank0_*/pass00000.tdp"))) for folder in (a, b)]
    run([cmp, *files])
    ours, theirs = [], []
    for pair in range(pairs):
        for side in ("diff", "cmp") if pair % 2 == 0 else ("cmp", "diff"):
            if side == "diff":
                ours.append(diff(bench, a, b, "--verify").seconds)
            else:
                theirs.append(run([cmp, *files]).seconds)
    ratios = [slow / fast for slow, fast in zip(theirs, ours, strict=True)]
    rows[0].value, rows[0].interval = median(ratios), bootstrap([ratios])
    rows[0].note = f"2 x {mib} MiB in {median(ours):.2f} s; cmp {median(theirs):.2f} s"


METRICS = Measurement(
    [
        Row("all metrics of two bfloat16 runs", "x", "(a.float() - b.float()).abs().max() in torch", "higher", 5, 15),
        Row("runs of equal hashes", "x", "the time of the row above", must=0.01),
        Row("peak memory of that diff", "MiB", "512 MiB", must=512),
    ],
    metrics,
)
EQUAL = Measurement([Row("equal runs, every byte read", "x", "cmp", "higher", must=1, aim=3)], equal)
