"""Ways in which a job compiles parts of what it runs. Called with a case and ``plain`` or a backend of torch.compile; prints
what was computed and how many graphs Dynamo made."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import tdump
import torch
from torch import nn

HOW = sys.argv[2]
CASES: dict[str, Callable[[], Any]] = {}


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    CASES[function.__name__] = function
    return function


def compiled(function: Any, **options: Any) -> Any:
    return function if HOW == "plain" else torch.compile(function, backend=HOW, fullgraph=True, **options)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(4), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, x: torch.Tensor, gate: torch.Tensor | None = None) -> torch.Tensor:
        y = self.mlp(self.norm(x))
        return x + (y if gate is None else y * gate)


class Stack(nn.Module):
    def __init__(self, layers: int = 3) -> None:
        super().__init__()
        self.layers, self.head = nn.ModuleList(Layer() for _ in range(layers)), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, gate=torch.ones(4))
        return self.head(x)


def stack(seed: int = 0, **options: Any) -> Stack:
    torch.manual_seed(seed)
    return Stack(**options)


def x(batch: int = 2) -> torch.Tensor:
    torch.manual_seed(batch)
    return torch.randn(batch, 4)


def trained(model: nn.Module, call: Any, steps: int = 3) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        loss = call(x()).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@case
def layers_share_code() -> Any:
    """More layers than Dynamo would compile code for, one by one."""
    model = stack(layers=12)
    for layer in model.layers:
        if HOW != "plain":
            layer.compile(backend=HOW, fullgraph=True)
    return trained(model, model)


@case
def a_function() -> Any:
    """No module call encloses the region: that of the model begins inside it."""
    model = stack()

    def step(x: torch.Tensor) -> torch.Tensor:
        return model(x * 2) + 1

    return trained(model, compiled(step))


@case
def a_function_of_two_models() -> Any:
    """The second one runs the code that was compiled for the first, and is called nowhere else."""
    models = [stack(seed, layers=1) for seed in range(2)]
    run = compiled(lambda model, x: model(x))
    return [run(model, x()).sum().item() for model in models for _ in range(2)]


@case
def two_instances() -> Any:
    models = [stack(seed, layers=1) for seed in range(2)]
    calls = [compiled(model) for model in models]
    return [call(x()).sum().item() for call in calls for _ in range(2)]


@case
def micro_batches() -> Any:
    """Two forwards, then their backwards, the first one first."""
    model = stack()
    call = compiled(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        first, second = call(x(2)).square().sum(), call(x(2) * 3).square().sum()
        first.backward()
        second.backward()
        optimizer.step()
        losses += [first.item(), second.item()]
    return losses


@case
def an_eager_model_around() -> Any:
    model = nn.Sequential(nn.Linear(4, 4), stack(), nn.ReLU())
    model[1] = compiled(model[1])
    return trained(model, model)


@case
def a_part_in_place() -> Any:
    """What a module gave is written by the next one."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4), nn.Hardtanh(inplace=True))
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.3)
    return trained(model, compiled(model))


@case
def steps_without_gradients() -> Any:
    model = stack()
    call = compiled(model)
    with torch.inference_mode():
        return [call(x()).sum().item() for _ in range(3)]


class Helped(Stack):
    """Calls its layers through a function."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = run_layer(layer, x)
        return self.head(x)


run_layer = compiled(lambda layer, x: layer(x) * 1)


@case
def layers_through_a_function() -> Any:
    """The code compiled for the first layer runs for all."""
    torch.manual_seed(0)
    model = Helped()
    return trained(model, model)


@case
def micro_batches_of_a_function() -> Any:
    """Steps are those of the optimizer, as in eager code."""
    model = stack()
    call = compiled(lambda x: model(x) * 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        for micro in range(3):
            loss = call(x() + micro).square().sum()
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    return losses


class Offset(nn.Module):
    """Gives a parameter of its own to another module."""

    def __init__(self) -> None:
        super().__init__()
        self.offset, self.model = nn.Parameter(torch.ones(2, 4)), stack(layers=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(self.offset) + x.sum()


def halved(x: torch.Tensor) -> torch.Tensor:
    return tdump.tap(x / 2, "in no module")


class Tapped(Layer):
    def forward(self, x: torch.Tensor, gate: torch.Tensor | None = None) -> torch.Tensor:
        y = tdump.tap(self.norm(x), "normed", "a", 1)
        return tdump.tap({"sum": x + halved(self.mlp(y)), "count": 1}, f"sum of {len(x)}")["sum"]


def tapped() -> Stack:
    torch.manual_seed(0)
    model = Stack(layers=1)
    model.layers.extend(Tapped() for _ in range(2))
    return model


@case
def taps_in_a_model() -> Any:
    model = tapped()
    return trained(model, compiled(model))


@case
def taps_in_a_function() -> Any:
    model = tapped()

    def step(x: torch.Tensor) -> torch.Tensor:
        return tdump.tap(model(halved(x)), "last") + 1

    return trained(model, compiled(step))


@case
def taps_of_layers_that_share_code() -> Any:
    model = tapped()
    for layer in model.layers:
        if HOW != "plain":
            layer.compile(backend=HOW, fullgraph=True)
    return trained(model, model)


class Named(nn.Module):
    def forward(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return tdump.tap(x + 1, name)


@case
def a_tap_whose_name_is_an_argument() -> Any:
    call = compiled(Named())
    return [call(x(), f"step {n}").sum().item() for n in range(12)]


@case
def a_hook_on_a_leaf() -> Any:
    model = Offset()
    model.offset.register_hook(lambda gradient: gradient * 100)
    losses = trained(model, compiled(model))
    return losses, model.offset.sum().item()


@case
def compiled_autograd() -> Any:
    model = Offset()
    call = compiled(model)
    if HOW == "plain":
        return trained(model, call)
    from torch._dynamo import compiled_autograd

    with compiled_autograd._enable(lambda graph: torch.compile(graph, backend=HOW)):
        return trained(model, call)


class Careless(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = stack(layers=1)

    def forward(self, x: torch.Tensor, label: str, scale: float, sizes: list[int]) -> torch.Tensor:
        return self.layer(x)


class Caller(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Careless()

    def forward(self, x: torch.Tensor, label: str, scale: float, sizes: list[int]) -> torch.Tensor:
        return self.part(x, label, scale=scale, sizes=sizes)


@case
def arguments_that_are_not_used() -> Any:
    """Code is compiled once, whatever they are."""
    torch.manual_seed(0)
    call = compiled(Caller())
    return [call(x(), f"step {n}", n / 4, [n] * n).sum().item() for n in range(4)]


@case
def functional_transform() -> Any:
    """Not captured; runs as without tdump."""
    model = stack(layers=1)
    return compiled(lambda x: torch.func.vmap(lambda row: model(row))(x).sum())(x()).item()


@case
def a_backend_of_the_job() -> Any:
    """Not captured; no operator it may not know is put into its graph."""
    seen = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        seen.extend(str(node.target) for node in graph.graph.nodes if "tdump" in str(node.target))
        return graph.forward

    model = stack(layers=1)
    call = model if HOW == "plain" else torch.compile(model, backend=backend, fullgraph=True)
    return call(x()).sum().item(), seen


def main() -> None:
    torch.manual_seed(0)
    result = CASES[sys.argv[1]]()
    told: dict[str, Any] = {"result": result}
    if HOW != "plain":
        from torch._dynamo.utils import counters

        told |= {"graphs": counters["stats"]["unique_graphs"], "breaks": dict(counters["graph_break"])}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
