"""What recording a transformer block on a CUDA device costs: recorded steps against the idle steps between them, in one
process a case. Prints a table; --json FILE writes it as bench/run does. TDUMP_BUILD names the build tree."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

BUILD = Path(os.environ["TDUMP_BUILD"])
JOB = Path(__file__).with_name("bench_job.py")
WARM_UP = 4


@dataclass(frozen=True)
class Case:
    name: str
    level: str
    steps: int = 44
    pause: float = 0.0  # seconds before each step; with one, what a recorded step left is written before the next
    full: str = "at_limit: block"  # what happens when the staging is full: keys of `memory`


CASES = (
    Case("full, staging drained between steps", "full", pause=0.35),
    Case("full, back to back, block", "full"),
    Case("full, back to back, drop", "full", full="at_limit: drop"),
    Case("full, back to back, max_block 100%", "full", steps=24, full="max_block: 100%"),
    Case("stats", "stats"),
    Case("hash", "hash"),
    Case("hash and stats", "[hash, stats]"),
    Case("meta", "meta"),
)


def row(name: str, value: float, unit: str, better: str, against: str) -> dict:
    numbers = {"value": value, "unit": unit, "better": better, "against": against}
    return {"group": "device", "name": name, **numbers, "must": None, "aim": None, "met": None}


def measure(case: Case, folder: Path) -> list[dict]:
    config = folder / "tdump.yaml"
    config.write_text(
        f"steps: {{select: 0-{case.steps}:2, boundary: explicit}}\nsignature: false\n"
        f"memory: {{device: 1GiB, host: 8GiB, {case.full}}}\n"
        f"output: {{dir: {folder}/run, limit: 40GiB}}\ncapture:\n"
        f"  - {{leaf: true, role: [output], level: {case.level}}}\n"
    )
    env = {key: value for key, value in os.environ.items() if not key.startswith("TDUMP_")}
    env["PYTHONPATH"] = str(BUILD / "python")
    job = [sys.executable, str(JOB), str(case.steps), str(case.pause)]
    command = [str(BUILD / "bin" / "tdump-run"), "-c", str(config), "--", *job]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    sys.stderr.write(
        "".join(f"  {line}\n" for line in done.stderr.splitlines() if "not kept" in line or "COMPLETE" in line)
    )
    times = json.loads(done.stdout.strip().splitlines()[-1])
    rows = []
    for kind in ("wall", "enqueue"):
        recorded, idle = (statistics.median(times[kind][first + WARM_UP :: 2]) for first in (0, 1))
        rows.append(row(f"{case.name}: {kind}", recorded / idle, "x", "lower", f"idle step, {idle * 1e3:.3f} ms"))
    if case.full == "max_block: 100%":
        rate = times["bytes"] * case.steps / 2 / times["seconds"] * 1e-9
        rows.append(row(f"{case.name}: rate", rate, "GB/s", "higher", "bytes recorded over the time of all steps"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows: list[dict] = []
    for case in CASES:
        folder = Path(tempfile.mkdtemp(prefix="tdump_bench_", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        try:
            new = measure(case, folder)
        finally:
            shutil.rmtree(folder)
        rows += new
        for one in new:
            print(f"{one['name']:<48} {one['value']:7.3f} {one['unit']:<5} against {one['against']}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


main()
