"""Two steps of DistributedDataParallel on the ranks of an MPI launcher, which meet through gloo (argument 1: their store):
each rank has its part of one batch, and its loss is the mean over it. What the gradients are reduced to is tapped."""

from __future__ import annotations

import os
import sys

import tdump
import torch
import torch.distributed as dist
from gloo_end import end_gloo
from torch import nn

RANK, WORLD = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])


def train() -> None:
    torch.manual_seed(4)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        inputs, targets = torch.randn(8, 6).chunk(WORLD)[RANK], torch.randn(8, 3).chunk(WORLD)[RANK]
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        for name, parameter in model.named_parameters():
            tdump.tap(parameter.grad, f"reduced.{name}")
        optimizer.step()


def main() -> None:
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=RANK, world_size=WORLD)
    train()
    end_gloo()


if __name__ == "__main__":
    main()
