"""Two steps of two micro-batches under fully_shard (FSDP2), on ranks of an MPI launcher that meet through gloo (argument 1:
their store). After each backward it notes its own part of each gradient; argument 2: where to save them."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from gloo_end import end_gloo
from torch import nn
from torch.distributed.fsdp import fully_shard

RANK, WORLD = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])


def train() -> list[dict[str, torch.Tensor]]:
    torch.manual_seed(4)
    # The first layer is a group of its own; the others are gathered with the root. Three rows are no multiple of two ranks.
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))
    fully_shard(model[0])
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hooked: list[str] = []
    first = next(model.parameters())
    # Of the job: it comes after the gradient was recorded, and may do what it likes with it.
    first.register_post_accumulate_grad_hook(lambda p: hooked.append("own"))
    seen = []
    for _ in range(2):
        optimizer.zero_grad()
        for _ in range(2):
            inputs, targets = torch.randn(8, 6).chunk(WORLD)[RANK], torch.randn(8, 3).chunk(WORLD)[RANK]
            nn.functional.mse_loss(model(inputs), targets).backward()
            seen.append({name: p.grad.to_local().clone() for name, p in model.named_parameters()})
        optimizer.step()
    print("hooks", len(hooked), "weights", [float(p.to_local().double().sum()) for p in model.parameters()])
    return seen


def main() -> None:
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=RANK, world_size=WORLD)
    seen = train()
    torch.save(seen, f"{sys.argv[2]}{RANK}.pt")
    end_gloo()


if __name__ == "__main__":
    main()
