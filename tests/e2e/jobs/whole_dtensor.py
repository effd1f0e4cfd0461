"""A DTensor tapped by part and as a whole, printed, and inspected in both directions; two ranks."""

from __future__ import annotations

import os
import sys

import tdump
import torch
import torch.distributed as dist
from gloo_end import end_gloo
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

HOW = sys.argv[1]
look = tdump.inspector(fwd=lambda x: x.flatten().tolist(), bwd=lambda g: g.flatten().tolist())


def work(x: torch.Tensor) -> torch.Tensor:
    y = look(x * 2, tag="part")
    look(y, tag="whole", full=True)
    tdump.print("{} {}", y.shape, y, full=True, ranks=1)
    return y * y


def main() -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=sys.argv[2], rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    x = distribute_tensor(torch.arange(1.0, 5), mesh, [Shard(0)]).requires_grad_()
    run = work if HOW == "plain" else torch.compile(work, backend=HOW, fullgraph=True)
    tdump.step()
    run(x).sum().backward()
    if HOW == "plain":
        y = x.detach() * 3
        tdump.tap(y, "part")
        tdump.tap(y, "whole", full=True, ranks=0)
        tdump.tap(lambda: y, "lazy", full=True)
    end_gloo()


if __name__ == "__main__":
    main()
