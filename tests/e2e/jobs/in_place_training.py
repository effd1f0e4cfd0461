"""Trains the models of awkward_values.py, the one that changes its tensors in place first, for three steps. Prints a
digest of every output, loss, gradient, parameter, optimizer state and of the RNG state."""

from __future__ import annotations

import hashlib

import torch
from awkward_values import All, InPlace
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inplace = InPlace()
        self.all = All()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.inplace(x), self.all(x)


def show(name: str, tensor: torch.Tensor) -> None:
    print(name, tuple(tensor.shape), hashlib.sha256(tensor.detach().numpy().tobytes()).hexdigest())


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(5)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
    for step in range(3):
        for micro in range(2):
            x = torch.randn(4, 4, requires_grad=True)
            output, rest = net(x)
            loss = output.square().sum() + rest
            loss.backward()
            show(f"{step} {micro} output", output)
            show(f"{step} {micro} loss", loss)
            show(f"{step} {micro} input gradient", x.grad)
        for name, parameter in net.named_parameters():
            show(f"{step} gradient {name}", parameter.grad)
        optimizer.step()
        for name, parameter in net.named_parameters():
            show(f"{step} parameter {name}", parameter)
            for key, value in optimizer.state[parameter].items():
                show(f"{step} {key} {name}", value)
        optimizer.zero_grad()
    show("rng", torch.random.get_rng_state())


main()
