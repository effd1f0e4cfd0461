"""What recording a transformer block on a CUDA device costs: recorded steps against the idle steps between them, in one
process a level. Prints a table; --json FILE writes it as bench/run does. TDUMP_BUILD names the build tree."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BUILD = Path(os.environ["TDUMP_BUILD"])
JOB = Path(__file__).with_name("bench_job.py")
STEPS = 44
WARM_UP = 4


def measure(level: str, folder: Path) -> list[dict]:
    config = folder / "tdump.yaml"
    config.write_text(
        f"steps: {{select: 0-{STEPS}:2, boundary: explicit}}\nmemory: {{device: 1GiB, host: 8GiB}}\nsignature: false\n"
        f"output: {{dir: {folder}/run, limit: 40GiB}}\ncapture:\n  - {{leaf: true, role: [output], level: {level}}}\n"
    )
    env = {key: value for key, value in os.environ.items() if not key.startswith("TDUMP_")}
    env["PYTHONPATH"] = str(BUILD / "python")
    command = [str(BUILD / "bin" / "tdump-run"), "-c", str(config), "--", sys.executable, str(JOB), str(STEPS)]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    print(done.stderr.strip().splitlines()[-4:], file=sys.stderr)
    times = json.loads(done.stdout.strip().splitlines()[-1])
    rows = []
    for name, values in times.items():
        recorded, idle = (statistics.median(values[first + WARM_UP :: 2]) for first in (0, 1))
        rows.append(
            {
                "group": "device",
                "name": f"{level}, {name}",
                "value": recorded / idle,
                "unit": "x",
                "better": "lower",
                "against": f"idle step, {idle * 1e3:.3f} ms",
                "must": None,
                "aim": None,
                "met": None,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    for level in ("full", "stats", "hash", "meta"):
        folder = Path(tempfile.mkdtemp(prefix="tdump_bench_", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        try:
            rows += measure(level, folder)
        finally:
            shutil.rmtree(folder)
        for row in rows[-2:]:
            print(f"{row['name']:<20} {row['value']:6.3f}x   against {row['against']}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


main()
