"""tdump.instrument(record=True) on a model, compiled or not. `recorded_modules.py plain`, or the name of a compiler."""

from __future__ import annotations

import json
import sys

import tdump
import torch
from torch import nn

HOW = sys.argv[1]


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.Tanh()), nn.Linear(3, 1))
    tdump.instrument(model, record=True)
    run = model if HOW == "plain" else torch.compile(model, backend=HOW, fullgraph=True)
    tdump.step()
    run(torch.ones(2, 2)).sum().backward()
    print(json.dumps([p.grad.tolist() for p in model.parameters()]))


if __name__ == "__main__":
    main()
