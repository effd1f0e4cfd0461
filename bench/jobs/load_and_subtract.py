"""What users write today: load both, subtract, look at the largest difference.

    load_and_subtract.py THREADS LIST_A LIST_B

A list has a line for each bfloat16 tensor: FILE OFFSET BYTES. Prints the seconds of the loop, without the start.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch


def load(line: str) -> torch.Tensor:
    path, offset, size = line.split()
    return torch.from_numpy(np.fromfile(path, np.uint8, int(size), offset=int(offset))).view(torch.bfloat16)


def main() -> None:
    torch.set_num_threads(int(sys.argv[1]))
    lists = [Path(path).read_text(encoding="utf-8").splitlines() for path in sys.argv[2:]]
    began = time.perf_counter()
    worst = 0.0
    for line_a, line_b in zip(*lists, strict=True):
        a, b = load(line_a), load(line_b)
        worst = max(worst, (a.float() - b.float()).abs().max().item())
    took = time.perf_counter() - began
    if not worst > 0:
        raise SystemExit("the runs do not differ")
    print(took)


if __name__ == "__main__":
    main()
