"""What a job may call of tdump: tap, watch, step. Prints what the calls give back."""

from __future__ import annotations

import threading

import tdump
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.inner(x)
        same = tdump.tap(h, "hidden", "first", "second")
        assert same is h
        h.mul_(3)
        tdump.tap(h, "hidden")  # the same name again: another call
        tdump.tap({"a": h, "b": (x, None)}, "both/parts:1")
        return h


def main() -> None:
    torch.manual_seed(0)
    model = Model()
    x = torch.ones(1, 2)
    tdump.step(41)
    model(x)
    tdump.tap(x, "outside")
    tdump.step()
    model(x)
    weight = model.inner.weight
    weight.register_hook(lambda g: tdump.tap(g, "weight grad"))
    model(x).sum().backward()
    with torch.inference_mode():
        tdump.tap(x * 2, "inference")
    worker = threading.Thread(target=lambda: tdump.tap(x * 3, "worker"))
    worker.start()
    worker.join()
    # Nothing of this may raise: it does not without tdump.
    for value in (None, 3, "text", object(), [x, [x]]):
        assert tdump.tap(value, "odd") is value
    assert tdump.tap(x, None) is x and tdump.tap(x, 7, 8, object()) is x and tdump.tap(x, "") is x
    tdump.step("no number")
    tdump.watch(None)
    tdump.watch(model, 5)
    loop = [x]
    loop.append(loop)
    tdump.tap(loop, "loop")
    print(model(x).tolist(), weight.grad.tolist())


if __name__ == "__main__":
    main()
