"""Models whose values are awkward to see: changed in place, returned as they came, shared, called more than once,
structured. Prints a digest of every result, gradient and of the RNG state; with a file name, saves there what a
hand-written forward-hook dumper saw: per step, name -> tensor."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import tdump
import torch
from torch import nn


class InPlace(nn.Module):
    """Linear, ``y += x`` on its output, a module that returns its input, ReLU(inplace), a view, Dropout(inplace)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.act = nn.ReLU(inplace=True)
        self.same = nn.Identity()
        self.flat = nn.Flatten(0)
        self.drop = nn.Dropout(0.5, inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        y += x
        y = self.same(y)
        y.mul_(2)
        return self.drop(self.flat(self.act(y)) * 1)


@dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor | None


class Named(NamedTuple):
    hidden: torch.Tensor
    note: str


class Returns(nn.Module):
    """Returns a structure around its input; a leaf."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: torch.Tensor) -> Any:
        return {
            "none": lambda: None,
            "nothing": lambda: (),
            "one": lambda: (x + 1,),
            "tuple": lambda: (x, x[:1], (x + 2, None)),
            "list": lambda: [x * 3, x * 4],
            "dict": lambda: {"logits": x * 5, "aux": {"loss": x.sum(), "text": "ok"}, 7: x},
            "dataclass": lambda: Pair(x * 6, None),
            "namedtuple": lambda: Named(x * 7, "n"),
            "string": lambda: "text",
            "number": lambda: 3,
        }[self.kind]()


class Structured(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        kinds = ("none", "nothing", "one", "tuple", "list", "dict", "dataclass", "namedtuple", "string", "number")
        self.returns = nn.ModuleDict({kind: Returns(kind) for kind in kinds})

    def forward(self, x: torch.Tensor) -> tuple[Any, ...]:
        return tuple(part(x * self.scale) for part in self.returns.values())


class Reused(nn.Module):
    """One module called three times, one that stands under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.three = nn.Linear(4, 4)
        self.left = nn.Linear(4, 4)
        self.right = self.left
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = self.relu(self.three(x))
        return self.right(self.left(x))


class All(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inplace = InPlace()
        self.structured = Structured()
        self.reused = Reused()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        structured = self.structured(x)
        return self.inplace(x).sum() + self.reused(x).sum() + structured[6].left.sum()


def leaves(path: str, value: Any, out: list[tuple[str, torch.Tensor]]) -> None:
    """The tensors of a result under tdump's names: path, path.0, path.key."""
    if isinstance(value, torch.Tensor):
        out.append((path, value))
    elif isinstance(value, Pair):
        leaves(f"{path}.left", value.left, out)
        leaves(f"{path}.right", value.right, out)
    elif isinstance(value, Named):
        leaves(f"{path}.hidden", value.hidden, out)
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            leaves(f"{path}.{i}", item, out)
    elif isinstance(value, dict):
        for key, item in value.items():
            leaves(f"{path}.{key}", item, out)


class Dumper:
    """The hand-written one: every output of every named module, cloned in its forward hook."""

    def __init__(self, model: nn.Module) -> None:
        self.seen: dict[str, torch.Tensor] = {}
        self.calls: dict[str, int] = {}
        for name, module in model.named_modules():
            module.register_forward_hook(lambda m, a, out, name=name or ".": self.add(name, out))

    def add(self, name: str, output: Any) -> None:
        n = self.calls[name] = self.calls.get(name, -1) + 1
        found: list[tuple[str, torch.Tensor]] = []
        leaves(f"{name}::call{n}" if n else name, output, found)
        self.seen.update((path, tensor.detach().clone()) for path, tensor in found)

    def take(self) -> dict[str, torch.Tensor]:
        taken, self.seen, self.calls = self.seen, {}, {}
        return taken


def main() -> None:
    torch.manual_seed(3)
    model = All()
    dumper = Dumper(model) if len(sys.argv) > 1 else None
    digest = hashlib.sha256()
    steps = []
    for _ in range(2):
        tdump.step()
        for _ in range(2):  # two forwards in a step
            x = torch.randn(4, 4, requires_grad=True)
            loss = model(x)
            loss.backward()
            digest.update(loss.detach().numpy().tobytes() + x.grad.numpy().tobytes())
        if dumper is not None:
            steps.append(dumper.take())
    for name, parameter in model.named_parameters():
        digest.update(name.encode() + parameter.grad.numpy().tobytes())
    digest.update(torch.random.get_rng_state().numpy().tobytes())
    if dumper is not None:
        torch.save(steps, sys.argv[1])
    print(digest.hexdigest())


if __name__ == "__main__":
    main()
