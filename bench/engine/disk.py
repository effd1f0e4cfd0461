"""Sustained writing: several GiB through tdump, against the same bytes written plainly; and many small passes of some
ranks in one file, against a file a rank. All until it is on the disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from statistics import median

from lib.build import environment
from lib.intervals import bootstrap
from lib.measurement import Bench, Measurement
from lib.rows import Row
from lib.side import JobError, clear

# The disk sets the pace here: without a limit the job waits for it, and nothing is left out.
CONFIG = (
    "steps: {select: all, boundary: explicit}\nsignature: false\noutput: {limit: 100GB}\nmemory: {max_block: 100%}\n"
    "capture: [{name: bench, level: full}]\n"
)

RANKS = 4


def force(folder: Path) -> int:
    """Every byte below is on the disk when this returns; their number, without holes."""
    total = 0
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                os.fdatasync(file.fileno())
            stat = path.stat()
            total += min(stat.st_size, stat.st_blocks * 512)
    return total


def written(command: list[str], folder: Path, mib: int, most: float = 1.01) -> float:
    """Bytes a second from the first one's beginning, on the first rank, until the job has ended and all is on the disk.
    `most`: times the values lie there then."""
    done = subprocess.run(command, cwd=folder.parent, env=environment(), capture_output=True, text=True)
    if done.returncode != 0:
        raise JobError(f"{' '.join(command)} ended with status {done.returncode}\n{done.stderr.strip()}")
    total = force(folder)
    took = time.clock_gettime(time.CLOCK_MONOTONIC) - min(map(int, done.stdout.split())) / 1e9
    if not mib << 20 <= total < (mib << 20) * most:
        raise JobError(f"{folder.name} holds {total:,} bytes, expected {mib} MiB\n{done.stderr.strip()}")
    clear(folder)
    return total / took


def sustained(bench: Bench, rows: list[Row]) -> None:
    mib = 64 if bench.quick else 4096
    free = shutil.disk_usage(bench.work).free >> 20
    if free < 3 * mib:
        raise JobError(f"{bench.work} has {free:,} MiB free, needs {3 * mib:,}: name another disk with --work")
    job = [bench.build.job("writing"), str(mib)]
    ratios, plain_rates = [], []
    for pair in range(2 if bench.quick else 7):
        rates: dict[str, float] = {}
        for side in ("under", "plain") if pair % 2 == 0 else ("plain", "under"):
            folder = bench.work / f"{side}{pair}"
            if side == "plain":
                folder.mkdir()
            command = [*job, str(folder)] if side == "plain" else bench.tdump(folder.name, CONFIG, job)
            rates[side] = written(command, folder, mib)
        ratios.append(rates["under"] / rates["plain"])
        plain_rates.append(rates["plain"])
    rows[0].value, rows[0].interval = median(ratios), bootstrap([ratios])
    rows[0].note = f"{mib} MiB a run; plain {median(plain_rates) / 2**20:,.0f} MiB/s"


def rate_of_ranks(bench: Bench, layout: str, pair: int) -> float:
    """Bytes a second that RANKS ranks write in passes of 1 MiB."""
    mib = 16 if bench.quick else 512
    config = CONFIG.replace("output: {", f"output: {{layout: {layout}, ")
    folder = bench.work / f"{layout}{pair}"
    command = bench.tdump(folder.name, config, [bench.build.job("writing"), str(mib), "--small"])
    return written(["mpirun", "--oversubscribe", "-n", str(RANKS), *command], folder, RANKS * mib, most=1.03)


def node_file(bench: Bench, rows: list[Row]) -> None:
    ratios, packed = [], []
    for pair in range(2 if bench.quick else 9):
        rates = {
            layout: rate_of_ranks(bench, layout, pair)
            for layout in (("node", "packed") if pair % 2 == 0 else ("packed", "node"))
        }
        ratios.append(rates["node"] / rates["packed"])
        packed.append(rates["packed"])
    rows[0].value, rows[0].interval = median(ratios), bootstrap([ratios])
    rows[0].note = f"{RANKS} ranks, passes of 1 MiB; packed {median(packed) / 2**20:,.0f} MiB/s"


NODE_FILE = Measurement([Row("one file a node, rate", "x", "packed, a file a rank", "higher")], node_file)
WRITING = Measurement(
    [Row("sustained writing, rate", "x", "plain sequential write and fdatasync", "higher", must=0.9, aim=0.97)],
    sustained,
)
