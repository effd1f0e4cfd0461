"""Backward passes that are not the usual ones, one after the other; prints a digest of the gradients of each."""

import contextlib
import hashlib
import os

import torch
from torch import nn


def digest(*tensors):
    values = [None if t is None else t.detach().to_dense().contiguous() for t in tensors]
    text = b"".join(b"none" if v is None else v.reshape(-1).view(torch.uint8).numpy().tobytes() for v in values)
    return hashlib.sha256(text).hexdigest()[:16]


def gradients(net):
    found = digest(*(parameter.grad for parameter in net.parameters()))
    net.zero_grad()
    return found


class Odd(nn.Module):
    """None, numbers, a tuple of one, and a tensor that nobody uses."""

    def forward(self, x, nothing=None):
        return (x.sin(),), None, 3, {"unused": x.cos(), "text": "x"}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.odd, self.last = nn.Linear(4, 4), Odd(), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.odd(self.first(x))[0][0])


X = torch.arange(12.0).reshape(3, 4) / 12


def odd_values(net):
    net(X).sum().backward()


def a_leaf_as_input(net):
    x = X.clone().requires_grad_()
    for _ in range(3):
        net(x).sum().backward()
    print("leaf", digest(x.grad))


def written_views(net):
    y = net.first(X)
    y[0].mul_(2)  # in place on a view of what the module returned
    z = net.odd(y)[0][0]
    z.relu_()
    net.last(z).sum().backward()


def a_hook_that_raises(net):
    def refuse(gradient):
        raise ValueError("refused")

    output = net(X)
    output.register_hook(refuse)
    with contextlib.suppress(ValueError):
        output.sum().backward()


def several_types(net):
    for dtype in (torch.bfloat16, torch.float64, torch.complex64):
        layer = nn.Linear(4, 2, dtype=dtype)
        (layer(X.to(dtype)).abs() ** 2).sum().backward()
        print(dtype, gradients(layer))


def sparse(net):
    layer = nn.Embedding(8, 4, sparse=True)
    net(layer(torch.tensor([1, 2, 1]))).sum().backward()
    print("sparse", gradients(layer))


def a_function_of_its_own(net):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    net.last(Twice.apply(net.first(X))).sum().backward()


def functional(net):
    from torch.func import functional_call, grad, vmap

    parameters = {name: p.detach() for name, p in net.named_parameters()}

    def loss(parameters, x):
        return functional_call(net, parameters, (x,)).sum()

    one = grad(loss)(parameters, X)
    each = vmap(grad(loss), (None, 0))(parameters, X)
    print("functional", digest(*one.values(), *each.values()))


def inputs_only(net):
    x = X.clone().requires_grad_()
    print("inputs", digest(*torch.autograd.grad(net(x).sum(), [x, net.last.weight])))
    net(x).sum().backward(inputs=[net.first.bias])


def compiled(net):
    part = torch.compile(net, backend="aot_eager")
    for _ in range(2):
        part(X).sum().backward()


def compiled_autograd(net):
    from torch._dynamo import compiled_autograd

    loss = net(X).sum()
    with compiled_autograd._enable(torch.compile(backend="eager")):
        loss.backward()


def distributed(net):
    from torch.nn.parallel import DistributedDataParallel

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    for view in (False, True):
        wrapped = DistributedDataParallel(net, gradient_as_bucket_view=view)
        for _ in range(2):
            wrapped(X).sum().backward()
    torch.distributed.destroy_process_group()


def anomaly(net):
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        net(X).sum().backward()


CASES = [
    odd_values,
    a_leaf_as_input,
    written_views,
    a_hook_that_raises,
    several_types,
    sparse,
    a_function_of_its_own,
    functional,
    inputs_only,
    compiled,
    compiled_autograd,
    distributed,
    anomaly,
]

torch.manual_seed(1)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
for case in CASES:
    case(net)
    optimizer.step()
    print(case.__name__, gradients(net))
