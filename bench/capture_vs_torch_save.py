"""What capturing costs a job, against what a user would write instead: a forward hook that calls torch.save.

    python bench/capture_vs_torch_save.py [--mib 1024] [--repeat 3] [--tools build/bin]

One job (64 modules, every output kept, --mib MiB a step, float32) runs plain, with the hook, and under tdump; best of
--repeat, interleaved. "loop" is the time of the forward pass as the job sees it, "written" the time until the
process has ended and every byte is with the operating system. Ratios are to the hook's; below 1 is better.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODULES = 64
KINDS = ("plain", "torch.save", "tdump")


def job(kind: str, mib: int) -> None:
    """The measured process: prints the seconds of its loop."""
    import torch

    class Add(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    model = torch.nn.Sequential(*(Add() for _ in range(MODULES))).eval()
    x = torch.rand(mib * (1 << 20) // 4 // MODULES)
    if kind == "torch.save":
        for name, module in model.named_children():
            module.register_forward_hook(lambda m, args, out, name=name: torch.save(out, f"{name}.pt"))
    with torch.no_grad():
        model[0](x[:1])  # what is slow only once is not measured
        began = time.perf_counter()
        model(x)
        print(time.perf_counter() - began)


def measure(kind: str, mib: int, tools: Path) -> tuple[float, float]:
    """Seconds of the loop, and of the whole process."""
    command = [sys.executable, __file__, "--job", kind, "--mib", str(mib)]
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        if kind == "tdump":
            config = Path(folder, "tdump.yaml")
            config.write_text("steps: all\nsignature: false\noutput: {limit: 100GiB}\n")
            command = [str(tools / "tdump-run"), "-c", str(config), "-o", "run", "--", *command]
        began = time.perf_counter()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        whole = time.perf_counter() - began
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
        if kind == "tdump" and sum(f.stat().st_size for f in Path(folder, "run").rglob("*.tdp")) < mib << 20:
            raise SystemExit(f"tdump wrote less than {mib} MiB:\n{done.stderr}")
    return float(done.stdout), whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024, help="bytes kept a run (default 1024 MiB)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tools", type=Path, default=Path(__file__).resolve().parents[1] / "build" / "bin")
    parser.add_argument("--job", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        return job(options.job, options.mib)
    runs: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for _ in range(options.repeat):
        for kind in KINDS:
            runs[kind].append(measure(kind, options.mib, options.tools))
    best = {kind: [min(column) for column in zip(*times, strict=True)] for kind, times in runs.items()}
    # What the process costs without any capture is no part of the comparison.
    cost = {kind: [best[kind][i] - best["plain"][i] for i in (0, 1)] for kind in KINDS}
    print(f"{options.mib} MiB in {MODULES} tensors, best of {options.repeat}, {os.cpu_count()} CPUs")
    print(f"{'':12}{'loop s':>9}{'added s':>9}{'ratio':>7}{'written s':>12}{'added s':>9}{'ratio':>7}")
    for kind in KINDS:
        row = f"{kind:12}"
        for i, width in ((0, 9), (1, 12)):
            row += f"{best[kind][i]:{width}.2f}"
            if kind != "plain":
                row += f"{cost[kind][i]:9.2f}{cost[kind][i] / cost['torch.save'][i]:7.2f}"
            else:
                row += " " * 16
        print(row.rstrip())


if __name__ == "__main__":
    main()
