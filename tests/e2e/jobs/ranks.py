"""Two ranks, and how rank 1 ends in step 2: argument 1. With `reduces` they are a gloo group that reduces the outputs of
each step, and both end normally."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn


def meet(rank: int) -> None:
    """Returns when both ranks were here, a second later: what tdump writes meanwhile needs no longer."""
    Path(f"here_{rank}").touch()
    for _ in range(600):
        if Path(f"here_{1 - rank}").exists():
            break
        time.sleep(0.05)
    time.sleep(1)


def main() -> None:
    rank, world, end = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"]), sys.argv[1]
    if end == "reduces":
        dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/store", rank=rank, world_size=world)
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    for step in range(4):
        with torch.no_grad():
            out = model(torch.full((1, 4), float(rank + step)))
        if end == "reduces":
            dist.all_reduce(out)
        with open(f"results_{rank}", "a") as results:  # mpirun may mix what two ranks print within a line
            print(step, out.tolist(), file=results)
        if end == "reduces" or step != 2:
            continue
        meet(rank)
        if rank == 1 and end == "throws":
            raise RuntimeError("rank 1 gives up")
        if rank == 1 and end == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 1 and end == "leaves":
            os._exit(0)
        if end != "leaves":
            time.sleep(60)  # until mpirun ends the others
    if end == "reduces":
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
