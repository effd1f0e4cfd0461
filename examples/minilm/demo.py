"""The main job: encode real sentences on four ranks twice, once with a flipped bit, and let tdump say where it began.

Called by ./demo, which has built everything. Shows the commands it runs, so that they can be repeated by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RANKS = 4
DEFAULT_FAULT = "2:encoder.layer.3.attention.self.query.weight:23"


def show(command: list[str]) -> None:
    """Prints a command the way it would be typed from the root of the project."""
    text = shlex.join(command).replace(f"{ROOT}/", "")
    print(f"\n$ {text}", flush=True)


def run(command: list[str], *, expect: set[int] = frozenset({0})) -> subprocess.CompletedProcess:
    """Runs and shows a command; an exit status that is not expected ends the demo with that status."""
    show(command)
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode not in expect:
        sys.exit(f"demo: the command above ended with status {done.returncode}")
    return done


def capture(directory: Path, fault: str | None) -> None:
    """Runs the encoder on four ranks under tdump-run; `directory` receives the run."""
    shutil.rmtree(directory, ignore_errors=True)
    job = [sys.executable, "examples/minilm/encode.py"] + (["--fault", fault] if fault else [])
    run(
        [
            "mpirun",
            "-n",
            str(RANKS),
            "build/bin/tdump-run",
            "-c",
            "examples/minilm/tdump.yaml",
            "-o",
        ]
        + [str(directory.relative_to(ROOT)), "--", *job]
    )


def answer(report: dict) -> str:
    """The two or three sentences a reader wants, from what tdump-diff --json said."""
    if report["verdict"] == "same":
        return "The two runs are the same: {same} of {paired} records, {bitwise} of them bit for bit.".format(
            same=report["paired"] - report["differing"],
            paired=report["paired"],
            bitwise=report["bitwise_equal"],
        )
    lines = []
    parameters = report.get("parameters", {})
    if parameters.get("differing"):
        names = sorted({f"{entry['name']} on rank {entry['rank']}" for entry in parameters["differing"]})
        lines.append(f"{len(names)} of {parameters['compared']} parameters differs: {', '.join(names)}")
    origin = report.get("origin")
    if origin:
        lines.append(f"The runs part at step {origin['step']} on rank {origin['rank']}, in {origin['name']}:")
        lines.append(
            f"its inputs are equal, its output is not (max abs difference {origin['max_abs']:.6g}, "
            f"{origin['differing_elements']} of {origin['elements']} elements)."
        )
    lines.append(f"{report['differing']} of {report['paired']} records lie outside their bounds.")
    return "\n".join(lines)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./demo", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--fault",
        default=DEFAULT_FAULT,
        metavar="RANK:PARAM:BIT",
        help="or 'none' (default: %(default)s)",
    )
    parser.add_argument("--json", metavar="FILE", help="also write what tdump-diff --json said")
    parser.add_argument(
        "--require",
        choices=["tolerance", "bitwise"],
        default="tolerance",
        help="passed to tdump-diff",
    )
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    options = parse_arguments(argv)
    runs = ROOT / "outputs" / "demo"
    clean, other = runs / "clean", runs / "faulty"
    capture(clean, None)
    capture(other, None if options.fault == "none" else options.fault)
    for directory in (clean, other):
        run(["build/bin/tdump-merge", str(directory.relative_to(ROOT))])
    run(["build/bin/tdump-view", str(clean.relative_to(ROOT))])

    diff = [
        "build/bin/tdump-diff",
        "--require",
        options.require,
        "outputs/demo/clean",
        "outputs/demo/faulty",
    ]
    run(diff, expect={0, 1})
    done = subprocess.run([*diff, "--json"], cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"demo: tdump-diff --json ended with status {done.returncode}: {done.stderr.strip()}")
    report = json.loads(done.stdout)
    if options.json:
        Path(options.json).write_text(done.stdout, encoding="utf-8")
    print("\n" + answer(report))
    print(
        "\nNext: build/bin/tdump-view outputs/demo/faulty --records --rank 2, or docs/guide.md",
        flush=True,
    )
    return 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
