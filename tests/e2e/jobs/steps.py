"""Three iterations of two training batches, an optimizer step and an evaluation; batch n is filled with n = 1, 2, ..."""

from __future__ import annotations

import sys

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(x)


torch.manual_seed(0)
net, loss = Net(), nn.MSELoss()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
batches = (torch.full((1, 2), float(n)) for n in range(1, 10))
for _ in range(3):
    if "explicit" in sys.argv:
        import tdump

        tdump.step()
    for _ in range(2):
        loss(net(next(batches)), torch.zeros(1, 2)).backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        net(next(batches))
