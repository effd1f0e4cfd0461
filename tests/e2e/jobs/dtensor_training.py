"""Two steps of AdamW, one process whole (argument 1: one) or, on ranks of an MPI launcher that meet through gloo (argument 2:
their store), with parameters that are DTensors: fsdp (fully_shard), tp (parallelize_module) or mixed (both, in parts of one
model). Each rank notes its own parts as the job has them: parameters before the forward, gradients after the backward, what
the optimizer keeps after its step; argument 3: where to save them. Argument 4, fault: rank 1 alone changes an element of
its part of a weight after the first step."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from gloo_end import end_gloo
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK", 0))
WORLD = int(os.environ.get("OMPI_COMM_WORLD_SIZE", 1))
MODE = sys.argv[1]


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


class Scale(nn.Module):
    """Its parameter is distributed by hand, and is used whole."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(6))

    def forward(self, x):
        gain = self.gain
        return x * (gain.full_tensor() if isinstance(gain, DTensor) else gain)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.scale, self.head = Mlp(), Mlp(), Scale(), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.scale(self.second(self.first(x))))


def of_parameters(module: nn.Module, mesh: DeviceMesh, placement: Shard | Replicate) -> None:
    for name, parameter in list(module.named_parameters(recurse=False)):
        setattr(module, name, nn.Parameter(distribute_tensor(parameter.detach(), mesh, [placement])))


def shard(model: Model) -> None:
    if MODE == "fsdp":
        fully_shard(model.first)
        fully_shard(model)  # three rows of the head are no multiple of two ranks
        return
    mesh = init_device_mesh("cpu", (1, WORLD), mesh_dim_names=("dp", "tp"))["tp"]
    parallelize_module(model.first, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    of_parameters(model.scale, mesh, Shard(0))
    if MODE == "mixed":
        fully_shard(model.second, mesh=mesh)
        return
    # Every rank has all of it, by hand.
    up = model.second.up
    of_parameters(up, mesh, Replicate())
    up.register_forward_pre_hook(lambda _, args: DTensor.from_local(args[0], mesh, [Replicate()], run_check=False))
    up.register_forward_hook(lambda _, args, output: output.to_local())


def note(tensor: torch.Tensor) -> tuple[torch.Tensor, str, tuple[int, ...]]:
    """The part of this rank, the placements of the whole and its shape."""
    if isinstance(tensor, DTensor):
        return tensor.to_local().detach().clone(), str(tensor.placements), tuple(tensor.shape)
    return tensor.detach().clone(), "", ()


def train() -> list[dict[str, tuple[torch.Tensor, str, tuple[int, ...]]]]:
    torch.manual_seed(4)
    model = Model()
    if MODE != "one":
        shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    # FSDP alone gives each rank a part of the batch.
    places, place = (WORLD, RANK) if MODE == "fsdp" else (1, 0)
    seen = []
    for step in range(2):
        optimizer.zero_grad()
        inputs, targets = torch.randn(8, 6).chunk(places)[place], torch.randn(8, 3).chunk(places)[place]
        noted = {f"param {name}": note(p) for name, p in model.named_parameters()}
        nn.functional.mse_loss(model(inputs), targets).backward()
        noted.update({f"param_grad {name}": note(p.grad) for name, p in model.named_parameters()})
        optimizer.step()
        for name, p in model.named_parameters():
            noted.update({f"state {name}.{key}": note(value) for key, value in optimizer.state[p].items()})
        seen.append(noted)
        if sys.argv[4:] == ["fault"] and RANK == 1 and step == 0:
            model.second.down.weight.to_local().detach()[0, 0] += 0.5
    print("weights", [float(note(p)[0].double().sum()) for p in model.parameters()])
    return seen


def main() -> None:
    if MODE != "one":
        dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=RANK, world_size=WORLD)
    seen = train()
    if len(sys.argv) > 3:
        torch.save(seen, f"{sys.argv[3]}{RANK}.pt")
    if MODE != "one":
        end_gloo()


if __name__ == "__main__":
    main()
