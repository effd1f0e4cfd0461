"""Evaluation and training in turns: 1 evaluation, 2 train steps of 2 micro-batches, 2 evaluations, 1 train step. Before
it, or not, an optimizer that is built only after the first forward; two optimizers, of which the second steps too."""

from __future__ import annotations

import copy
import sys

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(x)


def main() -> None:
    torch.manual_seed(2)
    net, loss = Net(), nn.MSELoss()
    count = 0

    def batch() -> torch.Tensor:
        nonlocal count
        count += 1
        return torch.full((1, 2), float(count))

    def evaluate() -> None:
        net.eval()
        with torch.no_grad():
            loss(net(batch()), torch.zeros(1, 2))

    if "late" not in sys.argv:
        optimizer = torch.optim.AdamW(net.parameters())
        second = torch.optim.SGD(net.parameters(), lr=1e-3)
    evaluate()
    if "late" in sys.argv:
        optimizer = torch.optim.AdamW(net.parameters())
        second = torch.optim.SGD(net.parameters(), lr=1e-3)

    def train() -> None:
        net.train()
        for _ in range(2):
            loss(net(batch()), torch.zeros(1, 2)).backward()
        if "closure" in sys.argv:
            optimizer.step(lambda: loss(net(batch()), torch.zeros(1, 2)))
        else:
            optimizer.step()
        second.step()
        optimizer.zero_grad()

    train()
    if "replaced" in sys.argv:  # the second part of a training
        del optimizer, second
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
        second = torch.optim.SGD(net.parameters(), lr=1e-3)
    if "copied" in sys.argv:
        copy.deepcopy(optimizer).step()  # not the one the steps count by
    train()
    evaluate()
    evaluate()
    train()
    print(net.lin.weight.tolist())


if __name__ == "__main__":
    main()
