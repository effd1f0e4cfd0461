"""A small training job. `reference FILE`: writes what a TorchDispatchMode sees of it; `plain`: only runs.

Steps: 0 forward and backward, 1 the same under torch.profiler, 2 operators of special kinds, 3 two threads,
4 as 0.
"""

import contextlib
import sys
import threading

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.act = nn.ReLU(inplace=True)
        self.register_buffer("shift", torch.arange(8.0) / 8)

    def forward(self, x):
        y = self.linear(x)
        y += self.shift
        return self.norm(self.act(y))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def tensors(value):
    """The tensors in what an operator takes or returns: a list of (place, tensor)."""
    if isinstance(value, torch.Tensor):
        return [("", value)]
    if isinstance(value, (list, tuple)):
        return [(f"{i}.{p}".rstrip("."), t) for i, item in enumerate(value) for p, t in tensors(item)]
    return []


class Reference(TorchDispatchMode):
    """Every operator with what it takes (before it runs), what it writes, what it returns."""

    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        schema = func._schema
        seen, written = [], []
        for i, argument in enumerate(schema.arguments):
            place = f"kwargs.{argument.name}" if argument.kwarg_only else str(i)
            value = kwargs.get(argument.name) if argument.name in kwargs else args[i] if i < len(args) else None
            writes = argument.alias_info is not None and argument.alias_info.is_write
            for part, tensor in tensors(value):
                arg = f"{place}.{part}".rstrip(".")
                seen.append(("before" if writes else "input", arg, tensor.detach().clone()))
                if writes:
                    written.append((arg, tensor))
        result = func(*args, **kwargs)
        returned = tensors(result)
        seen += [("output", arg, tensor.detach().clone()) for arg, tensor in returned]
        seen += [("after", arg, tensor.detach().clone()) for arg, tensor in written]
        backward = torch._C._current_graph_task_id() != -1
        self.steps[-1].append((schema.name, path[-1] if path and not backward else "", backward, seen))
        return result


path: list[str] = []


def follow_modules(net):
    def leave(module, args, output):
        path.pop()

    for name, module in net.named_modules():
        module.register_forward_pre_hook(lambda m, a, name=name: path.append(name or "."))
        module.register_forward_hook(leave)


library = torch.library.Library("demo", "DEF")
library.define("pair(Tensor x) -> (Tensor, Tensor[])")
library.impl("pair", lambda x: (x + 1, [x * 2, x * 3]), "CPU")  # called boxed


def forward_and_backward(net, x):
    net(x).sum().backward()


def profiled(net, x):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        forward_and_backward(net, x)
    counts = {event.key: event.count for event in profile.key_averages()}
    print("profiler", [counts.get(name) for name in ("aten::addmm", "aten::native_layer_norm", "aten::mm")])


def special(net, x):
    """Lists in and out, several results, out=, a boxed kernel, an operator that raises, odd strides."""
    net(x).sum().backward()  # first, because a step begins with the call of a model
    y = x.clone().t().contiguous().t()
    torch._foreach_add_(list(torch.split(y, 2)), 1.5)
    torch.topk(y, 2)
    torch.add(y, y, alpha=2, out=torch.empty(0))
    torch.ops.demo.pair(y)
    with contextlib.suppress(RuntimeError):
        torch.mm(y, y)


def two_threads(net, x):
    def work():
        for _ in range(5):
            net.blocks[0](x)

    net(x).sum().backward()
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.randn(4, 8)
    steps: list[list] = []
    reference = sys.argv[1] == "reference"
    if reference:
        follow_modules(net)
    for step in (forward_and_backward, profiled, special, two_threads, forward_and_backward):
        steps.append([])
        with Reference(steps) if reference and step is not two_threads else contextlib.nullcontext():
            step(net, x)
            optimizer.step()
        optimizer.zero_grad()
    print("sum", sum(p.double().sum().item() for p in net.parameters()), torch.randn(1).item())
    if reference:
        torch.save(steps, sys.argv[2])


main()
