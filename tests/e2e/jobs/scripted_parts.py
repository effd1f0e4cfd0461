"""A script module within a model of eager code: it throws, runs under autocast and in threads, and is frozen and saved.
Prints, as JSON, what was computed and whether anything of tdump is left in what was saved. ``eager``: trains the same
model without TorchScript."""

from __future__ import annotations

import io
import json
import sys
import threading

import torch
from torch import nn

STEPS = 4


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, fail: bool = False) -> torch.Tensor:
        y = self.linear(x)
        if fail:
            raise RuntimeError("as it was asked to")
        return y


class Parts(nn.Module):
    """Gives a value that it uses itself, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Part(), Part()

    def forward(self, x: torch.Tensor, fail: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        used = self.first(x) * 2
        # Enough for a graph of TorchScript's own differentiator.
        mixed = ((((used + 1) * 2 - 0.5) * used + 0.25) * 0.5).tanh() * 3
        return self.second(mixed, fail), used


class Model(nn.Module):
    def __init__(self, eager: bool) -> None:
        super().__init__()
        parts = Parts()
        self.parts, self.head = parts if eager else torch.jit.script(parts), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, fail: bool = False) -> torch.Tensor:
        y, used = self.parts(x, fail)
        return self.head(y + used)


def main() -> None:
    torch.manual_seed(0)
    model, x = Model("eager" in sys.argv), torch.randn(3, 4, requires_grad=True)
    told: list[object] = []
    for _ in range(STEPS):
        result = model(x).sum()
        result.backward()
        told += [result.item(), x.grad.tolist()]
    for _ in range(0 if "eager" in sys.argv else 3):
        with torch.autocast("cpu"):
            told.append(model(x).tolist())
        threads = [threading.Thread(target=model, args=(x,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        try:
            model(x, True)
        except torch.jit.Error as error:
            told.append("as it was asked to" in str(error))
    if "eager" in sys.argv:
        return print(json.dumps(told))
    file = io.BytesIO()
    torch.jit.save(torch.jit.freeze(model.parts.eval()), file)
    torch.jit.save(model.parts, file)
    told.append(b"scripted_" in file.getvalue())
    print(json.dumps(told))


if __name__ == "__main__":
    main()
