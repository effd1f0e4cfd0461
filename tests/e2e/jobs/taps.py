"""Both halves of taps. `taps.py plain`, or the name of a compiler. Prints losses and gradients."""

from __future__ import annotations

import json
import sys

import tdump
import torch
from torch import nn

HOW = sys.argv[1]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.inner(x)
        assert tdump.tap(h, "value", phase="forward") is h
        assert tdump.tap_grad(h, "gradient", "late") is h
        tdump.tap((h, x), "both", phase="both")
        tdump.tap(h, "elsewhere", ranks=1)
        tdump.tap(h, "here", phase="forward", ranks={0, 1})
        tdump.tap(lambda: h * 2, "lazy")
        tdump.tap_grad(x, "no gradient")
        return (h * h).sum()


def main() -> None:
    torch.manual_seed(0)
    model = Model()
    run = model if HOW == "plain" else torch.compile(model, backend=HOW, fullgraph=True)
    told = []
    for _ in range(2):
        tdump.step()
        model.zero_grad()
        loss = run(torch.ones(2, 2))
        loss.backward()
        told.append([loss.item(), model.inner.weight.grad.tolist()])
    print(json.dumps(told))


if __name__ == "__main__":
    main()
