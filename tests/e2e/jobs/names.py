"""How modules come to their names. Each scene is a step; a scene that needs to says something prints a line."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import tdump
import torch
from torch import nn

SCENES: list[Callable[[], None]] = []
KEPT: list[Any] = []  # modules that live on, as they do in a job


def scene(function: Callable[[], None]) -> None:
    SCENES.append(function)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin, self.act = nn.Linear(2, 2), nn.Tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.lin(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        first = Layer()
        self.embed = nn.Linear(2, 2)
        self.layers = nn.ModuleList(copy.deepcopy(first) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return x


class Critic(Net):
    """A second root; the configuration calls it `judge`."""


class Late(Net):
    """Gets more modules after its first call."""


class Fails(nn.Module):
    """Raises below its second part when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.inside, self.after = Layer(), Layer(), Layer()
        self.inside.act = Refuses()

    def forward(self, x: torch.Tensor, fail: bool) -> torch.Tensor:
        self.inside.act.fail = fail
        return self.after(self.inside(self.before(x)))


class Refuses(nn.Module):
    fail = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.fail == "stop":
            raise KeyboardInterrupt
        if self.fail:
            raise ValueError("refused")
        return x


def data() -> torch.Tensor:
    return torch.ones(1, 2)


@scene
def two_instances() -> None:
    """In order of construction, whichever is called first."""
    first, second = Net(), Net()
    KEPT.extend((first, second))
    second(data())
    first(data())


@scene
def parts_by_hand() -> None:
    """Parts have the names they have below their root, and so have deep-copied layers."""
    net = KEPT[0]
    net.layers[1].lin(data())
    net.layers[0](data())
    net.forward(data())  # past __call__


@scene
def owner_found_later() -> None:
    """A module called before it is given to another: its records get the name it has then as an alias."""
    layer, net = Layer(), Late()
    KEPT.append(net)
    layer(data())
    net.layers.append(layer)
    net(data())


@scene
def unpickled_part_by_hand() -> None:
    """A model no registration told of, and of it a part first."""
    net = pickle.loads(pickle.dumps(KEPT[0]))
    KEPT.append(net)
    net.layers[1].lin(data())
    net(data())


@scene
def loaded() -> None:
    buffer = io.BytesIO()
    torch.save(KEPT[0], buffer)
    buffer.seek(0)
    KEPT.append(torch.load(buffer, weights_only=False))
    KEPT[-1](data())


@scene
def averaged_copy() -> None:
    """Averages of the weights: a deep copy, one in torch's wrapper."""
    KEPT.append(copy.deepcopy(KEPT[0]))
    KEPT[-1].embed(data())
    KEPT.append(torch.optim.swa_utils.AveragedModel(KEPT[0]))
    KEPT[-1](data())


@scene
def configured_and_watched() -> None:
    critic, watched = Critic(), Net()
    KEPT.extend((critic, watched))
    tdump.watch(watched, "teacher")
    tdump.watch(KEPT[0].layers[0], "inner")  # a part that is to count as a root of its own
    critic(data())
    watched(data())
    KEPT[0].layers[0](data())
    tdump.watch("no module", "x")  # told, not raised


@scene
def added_late() -> None:
    net = Late()
    KEPT.append(net)
    net(data())
    net.layers.append(Layer())  # registered
    net._modules["hidden"] = nn.Linear(2, 2)  # written past the hooks
    net.hidden(data())
    net(data())
    net.embed, net.moved = nn.Linear(2, 2), net.embed  # the same module under another name
    net.moved(data())
    net(data())


@scene
def exceptions() -> None:
    model = Fails()
    KEPT.append(model)
    for fail in (False, True, "stop", False):
        try:
            model(data(), fail)
        except (ValueError, KeyboardInterrupt) as error:
            print("raised", type(error).__name__)
            tdump.tap(data(), "after the error")


@scene
def wrappers() -> None:
    import torch.distributed as dist
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    net = Net()
    net.layers[1] = checkpoint_wrapper(net.layers[1])
    parallel = nn.parallel.DistributedDataParallel(nn.DataParallel(net))
    KEPT.append(parallel)
    parallel(data()).sum().backward()
    sharded = torch.distributed.fsdp.fully_shard(Late())
    KEPT.append(sharded)
    sharded(data())


@scene
def nobody_s() -> None:
    """Losses called beside the model: made anew each time, and two that live together."""
    for _ in range(3):
        nn.MSELoss()(data(), data())
    one, two = nn.L1Loss(), nn.L1Loss()
    one(data(), data())
    two(data(), data())
    one(data(), data())


@scene
def nothing_is_kept_alive() -> None:
    net = Net()
    x = data().requires_grad_()
    seen = [weakref.ref(module) for module in net.modules()]
    tensors: list[weakref.ref[torch.Tensor]] = [weakref.ref(x)]
    for module in net.modules():
        module.register_forward_hook(lambda m, a, out: tensors.append(weakref.ref(out)))
    out = net(x)
    out.sum().backward()
    gradients = [weakref.ref(p.grad) for p in net.parameters()]
    assert len(tensors) == 1 + 1 + 1 + 2 * 3 and all(reference() is not None for reference in gradients)
    gc.disable()  # by reference counts alone
    del net, module, out, x
    left = [sum(ref() is not None for ref in refs) for refs in (seen, tensors, gradients)]
    gc.enable()
    print("alive", left)


@scene
def an_address_is_reused() -> None:
    """A new module at the address of a dead one is not taken for it."""
    for n in range(20):
        module = nn.Linear(2, 2) if n % 2 else nn.Conv1d(2, 2, 1)
        module(torch.ones(1, 2, 2))


def main() -> None:
    for run in SCENES:
        tdump.step()
        run()


if __name__ == "__main__":
    main()
