"""Capture a real model on four ranks twice, once with one bit of one weight flipped, and let tdump find the bit.

Called by ./demo, which has built everything. Every command is shown as it can be typed from the root of the project.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(os.environ.get("TDUMP_BUILD", ROOT / "build")) / "bin"
EXAMPLE = "examples/minilm"
RANKS = 4
DEFAULT_FAULT = "2:encoder.layer.3.attention.self.query.weight:23"


def parameter_names() -> list[str]:
    """Those of MiniLM-L6 in the order of named_parameters(), known before there is a torch to load it with."""
    attention = ["attention.self.query", "attention.self.key", "attention.self.value"]
    attention += ["attention.output.dense", "attention.output.LayerNorm"]
    parts = [*attention, "intermediate.dense", "output.dense", "output.LayerNorm"]
    layers = [f"encoder.layer.{layer}.{part}" for layer in range(6) for part in parts]
    names = [f"embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type")]
    for module in ("embeddings.LayerNorm", *layers, "pooler.dense"):
        names += [f"{module}.weight", f"{module}.bias"]
    return names


def give_up(message: str) -> NoReturn:
    """Ends the demo with status 2 and one line on standard error."""
    print(f"demo: {message}", file=sys.stderr)
    sys.exit(2)


def tool(name: str) -> str:
    path = TOOLS / name
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def show(command: list[str]) -> None:
    print(f"\n$ {shlex.join(command).replace(f'{ROOT}/', '')}", flush=True)


def run(command: list[str], *, expect: tuple[int, ...] = (0,)) -> None:
    """Shows a command and runs it from the root. A status not expected ends the demo."""
    show(command)
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode not in expect:
        give_up(f"the command above ended with status {done.returncode}, expected {' or '.join(map(str, expect))}")


def capture(directory: str, fault: str | None, *, brief: bool) -> None:
    """One job under tdump-run. What the ranks print themselves, hashes of their results, is left out.

    ``brief``: of what tdump says, only that the run is complete; all of it when it is not.
    """
    shutil.rmtree(ROOT / directory, ignore_errors=True)
    job = [sys.executable, f"{EXAMPLE}/encode.py"] + (["--fault", fault] if fault else [])
    command = [
        "mpirun",
        "-n",
        str(RANKS),
        tool("tdump-run"),
        "-c",
        f"{EXAMPLE}/tdump.yaml",
        "-o",
        directory,
        "--",
        *job,
    ]
    show(command)
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    complete = [line for line in done.stderr.splitlines() if line.startswith("tdump: COMPLETE")]
    print(complete[0] if brief and complete and done.returncode == 0 else done.stderr.rstrip(), flush=True)
    if done.returncode != 0:
        print(done.stdout, end="", flush=True)
        give_up(f"the command above ended with status {done.returncode}")


def ranks_text(ranks: list[int]) -> str:
    names = [str(rank) for rank in ranks]
    return f"rank {names[0]} agrees" if len(names) == 1 else f"ranks {', '.join(names[:-1])} and {names[-1]} agree"


def weights_line(report: dict[str, Any]) -> str:
    parameters = report["parameters"]
    differing = [f"{entry['name']} on rank {entry['rank']}" for entry in parameters["differing"]]
    if not differing:
        return f"all {parameters['compared']} parameters are equal on all ranks, bit for bit"
    verb = "differs" if parameters["differing_names"] == 1 else "differ"
    return f"{parameters['differing_names']} of {parameters['compared']} parameters {verb}: {', '.join(differing)}"


def origin_lines(origin: dict[str, Any]) -> list[str]:
    """Where the runs part, and by how much."""
    first = f"rank {origin['rank']}, step {origin['step']}, {origin['name']}"
    if origin["kind"] == "operator" and origin["certain"]:
        first += ": its inputs agree, its output does not"
    lines = [first]
    difference = origin["difference"] or {}
    metrics = difference.get("metrics")
    if metrics:
        lines.append(
            f"{metrics['outside']:,} of {metrics['elements']:,} elements beyond their bound, "
            f"max abs {metrics['max_abs_text']}, max rel {metrics['max_rel']:.3g}"
        )
    if origin["ranks_agreeing"]:
        lines[-1] += f"; {ranks_text(origin['ranks_agreeing'])}"
    return lines


def answer(report: dict[str, Any]) -> str:
    """What a reader wants to know, from what tdump-diff --json said."""
    counts = report["counts"]
    if report["verdict"] == "same":
        lines = [f"same: {counts['bitwise_equal']:,} of {counts['paired']:,} records are equal bit for bit"]
        if counts["bitwise_equal"] < counts["paired"]:
            lines[0] += ", the rest within bounds"
        if report["first_bits"]:
            first = report["first_bits"]
            lines.append(f"bits part first in rank {first['rank']}, step {first['step']}, {first['name']}")
    elif report["verdict"] == "differs" and report["origin"]:
        lines = origin_lines(report["origin"])
    else:
        lines = [report["summary"]]
    lines.append(weights_line(report))
    return "answer    " + "\n          ".join(lines)


def your_job() -> str:
    """How to go on with a job of one's own; how to look into these runs tdump-diff has said.

    The last line is to be pasted into any shell, anywhere: it sets what the demo's own shell has.
    """
    folders = f"{shlex.quote(str(TOOLS))}:{shlex.quote(str(Path(sys.executable).parent))}:$PATH"
    as_root = " OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1" if os.geteuid() == 0 else ""
    program = shlex.quote(str(ROOT / EXAMPLE / "encode.py"))
    return (
        "your job  takes the place of encode.py in the next line, which runs in any shell (docs/guide.md):\n"
        f"export PATH={folders}{as_root}; "
        f"mpirun --oversubscribe -n {RANKS} tdump-run --dump -- {Path(sys.executable).name} {program}; tdump-view"
    )


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./demo", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--fault",
        default=DEFAULT_FAULT,
        metavar="RANK:PARAM:BIT",
        help="bit of the first element of a parameter to flip, or 'none' (default: %(default)s)",
    )
    parser.add_argument("--json", metavar="FILE", help="also write what tdump-diff --json said")
    parser.add_argument(
        "--require",
        choices=["tolerance", "bitwise"],
        default="tolerance",
        help="what tdump-diff takes for the same (default: %(default)s)",
    )
    parser.add_argument(
        "--runs", default="outputs/demo", metavar="DIR", help="where the two runs go (default: %(default)s)"
    )
    parser.add_argument("--check", action="store_true", help="check the arguments and do nothing else")
    options = parser.parse_args(argv)
    if options.fault == "none":
        return options
    fault = re.fullmatch(r"(\d+):([^:]+):(\d+)", options.fault)
    if not fault:
        parser.error(f"--fault {options.fault}: expected RANK:PARAM:BIT, such as {DEFAULT_FAULT}, or none")
    if int(fault[1]) >= RANKS:
        parser.error(f"--fault {options.fault}: rank {fault[1]} is not one of 0..{RANKS - 1}")
    if fault[2] not in parameter_names():
        near = difflib.get_close_matches(fault[2], parameter_names(), n=3, cutoff=0.0)
        parser.error(f"--fault {options.fault}: no parameter {fault[2]}; nearest: {', '.join(near)}")
    if int(fault[3]) > 31:
        parser.error(f"--fault {options.fault}: bit {fault[3]} is not one of 0..31 of a float32")
    return options


def main(argv: list[str]) -> int:
    options = parse_arguments(argv)
    if options.check:
        return 0
    fault = None if options.fault == "none" else options.fault
    clean, other = f"{options.runs}/clean", f"{options.runs}/{'faulty' if fault else 'again'}"
    changed = (
        f"with bit {fault.split(':')[2]} of one weight of rank {fault.split(':')[0]} flipped" if fault else "again"
    )
    print(f"MiniLM-L6 encodes real sentences on {RANKS} ranks: first clean, then {changed}.")
    capture(clean, None, brief=False)
    capture(other, fault, brief=True)
    for directory in (clean, other):
        run([tool("tdump-merge"), "--quiet", directory])

    diff = [tool("tdump-diff"), *(["--require", "bitwise"] if options.require == "bitwise" else []), clean, other]
    run(diff, expect=(0, 1))
    done = subprocess.run([*diff, "--json"], cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        give_up(f"tdump-diff --json ended with status {done.returncode}: {done.stderr.strip()}")
    if options.json:
        called_from = os.environ.get("TDUMP_DEMO_CALLED_FROM", os.getcwd())
        Path(called_from, options.json).write_text(done.stdout, encoding="utf-8")
    report = json.loads(done.stdout)
    print("\n" + answer(report))
    print(your_job())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
