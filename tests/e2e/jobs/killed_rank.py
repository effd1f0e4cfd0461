"""Three blocks of a model, split over the ranks as tensor parallel ones: one rank has the whole of it. Argument 1: "good", or
"killed", whose rank 2 is killed in step 2, in the second block."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

HIDDEN, INNER = 8, 16
rank, world = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0")), int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
step = 0


def wait_for_the_writer() -> None:
    """Until nothing was written for two seconds: the other ranks wait for this one."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        written = []
        for path in Path("run").rglob("*"):
            if path.suffix in (".tdp", ".tdn", ".tdm", ".part"):
                with contextlib.suppress(FileNotFoundError):  # it just got its final name
                    written.append(path.stat().st_mtime)
        if written and time.time() - max(written) > 2:
            return
        time.sleep(0.1)


class Act(nn.Module):
    def __init__(self, block: int) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if sys.argv[1] == "killed" and (rank, step, self.block) == (2, 2, 1):
            wait_for_the_writer()
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.relu(x)


class Block(nn.Module):
    def __init__(self, block: int) -> None:
        super().__init__()
        torch.manual_seed(block)
        up, down, part = torch.randn(INNER, HIDDEN), torch.randn(HIDDEN, INNER), INNER // world
        own = slice(rank * part, (rank + 1) * part)
        self.up = nn.Linear(HIDDEN, part, bias=False)
        self.act = Act(block)
        self.down = nn.Linear(part, HIDDEN, bias=False)
        self.norm = nn.LayerNorm(HIDDEN)
        with torch.no_grad():
            self.up.weight.copy_(up[own])
            self.down.weight.copy_(down[:, own])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.down(self.act(self.up(x)))
        if world > 1:
            dist.all_reduce(y)
        return self.norm(x + y)


def main() -> None:
    global step
    if world > 1:
        dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/store", rank=rank, world_size=world)
    model = nn.Sequential(*[Block(block) for block in range(3)])
    with torch.no_grad():
        for step in range(4):
            torch.manual_seed(100 + step)
            model(torch.rand(4, HIDDEN))
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
