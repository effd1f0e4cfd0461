"""A training job. `reference FILE`: writes the gradients that torch's own hooks see of it; `plain`: only runs. Each step
ends with the optimizer's step; what it does before is a function below, in the order of STEPS.

The last line printed is a digest of all parameters, gradients and losses.
"""

import hashlib
import sys
import threading

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Pair(nn.Module):
    """Several results, and a keyword argument."""

    def forward(self, x, *, scale):
        return {"twice": x * 2, "both": (x * scale, x)}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.act = nn.ReLU(inplace=True)
        self.norm = nn.LayerNorm(8)
        self.same = nn.Identity()

    def forward(self, x):
        y = self.linear(x)
        y = self.norm(self.act(y))
        y += 1  # after the hooks of the norm's output
        return self.same(y) + x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.block = Block()
        self.pair = Pair()
        self.head = nn.Linear(4, 3)
        self.recompute = None

    def forward(self, ids):
        x = self.embed(ids)
        if self.recompute is None:
            x = self.block(self.block(x))  # shared: two calls
        else:
            x = checkpoint(self.block, x, use_reentrant=self.recompute == "reentrant")
        got = self.pair(x, scale=x.detach().mean() + x.mean())
        return self.head((got["twice"] + got["both"][0])[..., :4])  # a view


class Reference:
    """What torch shows: a list a step of (role, path, arg, call, micro, recompute, tensor)."""

    def __init__(self, net):
        self.steps, self.calls, self.again, self.micro = [], {}, {}, -1
        self.stack, self.recomputed, self.tensors = [], {}, []
        for path, module in net.named_modules():
            module.register_forward_pre_hook(self.before(path or "."), with_kwargs=True)
            module.register_forward_hook(self.after)
        for path, module in net.named_modules():
            for name, parameter in module.named_parameters(recurse=False):
                parameter.register_post_accumulate_grad_hook(self.accumulated(path, name))

    def begin(self):
        self.steps.append([])
        self.micro, self.accumulations = -1, {}
        self.tensors.clear()

    def before(self, path):
        def hook(module, args, kwargs):
            recompute = torch._C._current_graph_task_id() != -1
            if path == "." and not recompute and torch.is_grad_enabled():  # else a step of its own
                self.micro += 1
                self.calls, self.recomputed = {}, {}
            counts = self.recomputed if recompute else self.calls
            call = counts[path] = counts.get(path, -1) + 1
            self.stack.append((path, call, self.micro, recompute))
            self.follow("grad_input", args, kwargs)

        return hook

    def after(self, module, args, output):
        self.follow("grad_output", output, {})
        self.stack.pop()

    def follow(self, role, value, kwargs):
        place, step, calls = self.stack[-1], self.steps[-1], self.calls
        path, call, micro, recompute = place

        def visit(arg, value):
            if isinstance(value, torch.Tensor) and value.requires_grad:
                fired = 0

                def hook(gradient):
                    nonlocal fired
                    index = call + fired * (calls[path] + 1)
                    step.append((role, path, arg, index, micro, recompute, gradient.detach().clone()))
                    fired += 1

                value.register_hook(hook)
            elif isinstance(value, (tuple, dict)):
                items = value.items() if isinstance(value, dict) else enumerate(value)
                for key, item in items:
                    visit(f"{arg}.{key}".lstrip("."), item)

        visit("", value)
        visit("kwargs", kwargs)

    def accumulated(self, path, name):
        def hook(parameter):
            key = (path, name, self.micro)
            index = self.accumulations[key] = self.accumulations.get(key, -1) + 1
            self.steps[-1].append(("param_grad", path, name, index, self.micro, False, parameter.grad.detach().clone()))

        return hook


IDS = torch.tensor([[1, 2, 3, 2], [4, 5, 1, 0]])


def plain(net):
    net(IDS).square().mean().backward()


def micro_batches(net):
    for n in range(3):
        net(IDS + n).square().mean().backward()


def late_backward(net):
    """Two forwards, then their backwards: the gradients belong to the micro-batch of their forward."""
    losses = [net(IDS + n).square().mean() for n in range(2)]
    for loss in reversed(losses):
        loss.backward()


def two_backwards(net):
    loss = net(IDS).square().mean()
    loss.backward(retain_graph=True)
    (2 * loss).backward()


def recomputed(net):
    for net.recompute in ("reentrant", "frames"):
        net(IDS).square().mean().backward()
    net.recompute = None


def other_thread(net):
    loss = net(IDS).square().mean()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()


def without_gradients(net):
    with torch.no_grad():
        net(IDS)
    net.block.requires_grad_(False)
    net(IDS).square().mean().backward()
    net.block.requires_grad_(True)


def second_order(net):
    loss = net(IDS).square().mean()
    gradient = torch.autograd.grad(loss, net.head.weight, create_graph=True)[0]
    (loss + gradient.square().sum()).backward()


def changed_by_the_job(net):
    """A hook that changes a gradient, hooks of the job on a parameter, a gradient kept."""
    heard = []
    handles = [net.embed.weight.register_post_accumulate_grad_hook(lambda p: heard.append(float(p.grad.sum())))]
    handles.append(net.head.bias.register_hook(lambda g: g * 3))
    output = net(IDS)
    output.register_hook(lambda g: g * 0.5)
    output.retain_grad()
    output.square().mean().backward()
    print("heard", heard, float(output.grad.sum()))
    for handle in handles:
        handle.remove()


STEPS = [
    plain,
    micro_batches,
    late_backward,
    two_backwards,
    recomputed,
    other_thread,
    without_gradients,
    second_order,
    changed_by_the_job,
]


def main():
    torch.manual_seed(3)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    reference = Reference(net) if sys.argv[1] == "reference" else None
    digest = hashlib.sha256()
    states = []
    for step in STEPS:
        if reference is not None:
            reference.begin()
        step(net)
        for parameter in net.parameters():
            if parameter.grad is not None:
                digest.update(parameter.grad.numpy().tobytes())
        optimizer.step()
        names = {parameter: name for name, parameter in net.named_parameters()}
        state = [
            (names[parameter], name, value.clone())
            for parameter, values in optimizer.state.items()
            for name, value in values.items()
        ]
        states.append(state)
        optimizer.zero_grad(set_to_none=step is not plain)  # once in place
        for parameter in net.parameters():
            digest.update(parameter.detach().numpy().tobytes())
    if reference is not None:
        torch.save((reference.steps, states), sys.argv[2])
    print("digest", digest.hexdigest())


main()
