"""Jobs and tensors that tdump does not capture (yet), each a function. Runs those named on the command line and prints
a line for each: what it computed, as a digest, or how it failed. A tap and a step stand in each model, as a job may have
them."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import tdump
import torch
from torch import nn

CASES: dict[str, Callable[[], Any]] = {}


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    CASES[function.__name__] = function
    return function


class Block(nn.Module):
    """A small model with what hooks may trip over: keyword arguments, a dict, a part called twice."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(11)
        self.inner = nn.ModuleDict({"up": nn.Linear(4, 8), "down": nn.Linear(8, 4)})
        self.norm = nn.LayerNorm(4)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor, *, scale: float = 2.0) -> dict[str, torch.Tensor]:
        h = self.norm(x) * scale
        h = self.inner["down"](self.act(self.inner["up"](h)))
        return {"out": self.norm(tdump.tap(h, "middle", "tag")), "hidden": h}


class Plain(nn.Module):
    """The same without what tracers do not take."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(12)
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


class Through(nn.Module):
    """Gives back what it is given: how a tensor of any kind gets to a hook."""

    def __init__(self, function: Callable[[Any], Any] = lambda x: x) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def data(*shape: int) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape) / 7 - 1


def parts(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value.shape, value.dtype
        yield value.detach().numpy().tobytes()
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from parts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from parts(item)
    else:
        yield value


def digest(value: Any) -> str:
    return hashlib.sha256(repr(list(parts(value))).encode()).hexdigest()[:16]


# ---- compilers and tracers ----


def compiled(backend: str) -> Any:
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    model = Block()
    fast = torch.compile(model, backend=backend, fullgraph=True)
    x = data(3, 4).requires_grad_()
    results = []
    for _ in range(2):
        out = fast(x, scale=3.0)
        out["out"].square().sum().backward()
        results.append(out)
    counts = {k: dict(counters[k]) for k in ("graph_break", "frames", "unimplemented")}
    return results, x.grad, [p.grad for p in model.parameters()], counts, counters["stats"]["unique_graphs"]


@case
def compile_aot_eager() -> Any:
    return compiled("aot_eager")


@case
def compile_inductor() -> Any:
    return compiled("inductor")


@case
def compile_in_place() -> Any:
    model = Plain()
    model.compile(backend="aot_eager", fullgraph=True)
    return model(data(3, 4))


@case
def compile_part() -> Any:
    """A compiled layer inside an eager model."""
    model = nn.Sequential(Plain(), nn.Linear(4, 4), Plain())
    model[0] = torch.compile(model[0], backend="aot_eager", fullgraph=True)
    return model(data(3, 4)), list(model.state_dict())


@case
def export() -> Any:
    results = []
    for strict in (False, True):
        program = torch.export.export(Plain(), (data(3, 4),), strict=strict)
        results.append((str(program.graph), str(program.graph_signature), program.module()(data(3, 4))))
    return results


@case
def jit_trace() -> Any:
    with torch.no_grad():
        traced = torch.jit.trace(Plain(), data(3, 4))
    return str(traced.inlined_graph).split("#")[0], traced.code, traced(data(3, 4))


@case
def jit_script() -> Any:
    scripted = torch.jit.script(Plain())
    return scripted.code, scripted(data(3, 4))


@case
def symbolic_trace() -> Any:
    traced = torch.fx.symbolic_trace(Plain())
    return traced.code, traced(data(3, 4))


@case
def make_fx() -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx

    model = Plain()
    graphs = [
        make_fx(model, tracing_mode=mode, _allow_non_fake_inputs=True)(data(3, 4))
        for mode in ("real", "fake", "symbolic")
    ]
    return [g.code for g in graphs], graphs[0](data(3, 4))


@case
def vmap() -> Any:
    model = Block()
    return torch.func.vmap(model, randomness="different")(data(5, 3, 4))


@case
def functional_grad() -> Any:
    model = Plain()
    parameters = dict(model.named_parameters())

    def loss(p: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, p, (x,)).square().sum()

    grads = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, data(5, 4))
    return grads, torch.func.jacrev(model)(data(4)), torch.func.jvp(model, (data(4),), (data(4),))


@case
def lambda_in_no_module() -> Any:
    fast = torch.compile(lambda x: nn.functional.gelu(tdump.tap(x, "alone") * 2), backend="aot_eager", fullgraph=True)
    return fast(data(3, 4))


# ---- tensors without plain strided data on the CPU ----


def through(value: Any) -> Any:
    return Through()(value)


@case
def meta() -> Any:
    out = Plain().to("meta")(data(3, 4).to("meta"))
    return out.shape, out.device


@case
def meta_parameter() -> Any:
    """One real and one that was never filled."""
    model = Plain()
    model.up.to("meta")
    return model.down(data(2, 8))


@case
def fake() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        model = Plain()
        out = model(torch.empty(3, 4))
    through(out)  # and outside of the mode
    return type(out).__name__, out.shape


@case
def functional() -> Any:
    x = torch._to_functional_tensor(data(2, 2))
    torch._enable_functionalization(reapply_views=False)
    try:
        through(x)
    finally:
        torch._disable_functionalization()
    return torch._from_functional_tensor(x)


@case
def privateuse1() -> Any:
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend("testdevice")
    x = torch._C._acc.create_empty_tensor((2, 3), torch.float32)
    y = through(x)
    return y is x, str(y.device), tuple(y.shape)


@case
def sparse() -> Any:
    coo = torch.sparse_coo_tensor(torch.tensor([[0, 0], [1, 1]]), torch.tensor([1.0, 2.0]), (2, 2))
    dense = torch.eye(4)
    kinds = [coo, coo.coalesce(), dense.to_sparse_csr(), dense.to_sparse_csc()]
    kinds += [dense.to_sparse_bsr((2, 2)), dense.to_sparse_bsc((2, 2))]
    outs = [through(kind) for kind in kinds]
    return [o is k for o, k in zip(outs, kinds, strict=True)], [o.to_dense() for o in outs], coo.is_coalesced()


@case
def nested() -> Any:
    rows = [data(n, 2) for n in (1, 2, 0, 3)]
    kinds = [torch.nested.nested_tensor(rows, layout=layout) for layout in (torch.strided, torch.jagged)]
    outs = [through(kind) for kind in kinds]
    return [o is k for o, k in zip(outs, kinds, strict=True)], [list(o.unbind()) for o in outs]


@case
def quantised() -> Any:
    x = data(4, 3)
    one = torch.quantize_per_tensor(x, 0.1, 3, torch.qint8)
    each = torch.quantize_per_channel(x, torch.full((4,), 0.1), torch.tensor([30, 50, 60, 90]), 0, torch.quint8)
    outs = [through(one), through(each)]
    return [o.int_repr() for o in outs], outs[1].q_per_channel_zero_points()


@case
def mkldnn() -> Any:
    return through(data(3, 4).to_mkldnn()).to_dense()


class Wrapper(torch.Tensor):
    """A wrapper subclass: its data is in another tensor."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        self = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        self.inner = inner
        return self

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"the observer called {func}")


class Marked(torch.Tensor):
    """A subclass that has its data itself; no operator may be called on it unnoticed."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"the observer called {func}")


@case
def subclass() -> Any:
    inner = data(3, 4)
    x, marked = Wrapper(inner), torch.Tensor._make_subclass(Marked, data(2, 2))
    return through(x) is x and through(marked) is marked, x.inner


@case
def freed_storage() -> Any:
    """A parameter whose storage was resized to nothing, as sharded training does between uses."""
    model = Plain()
    model.up.weight.untyped_storage().resize_(0)
    x = data(3, 4)
    x.untyped_storage().resize_(0)
    through(x)
    return model.down(data(2, 8))


@case
def uninitialised() -> Any:
    model = nn.Sequential(nn.LazyLinear(4), nn.ReLU())
    torch.manual_seed(5)
    return model(data(3, 2))


@case
def named() -> Any:
    """Named tensors, in a torch that has them."""
    if not hasattr(torch.Tensor, "refine_names"):
        return "none"
    return through(data(2, 3).refine_names("batch", "C")).rename(None)


@case
def many_values() -> Any:
    """More than the recorder follows, deeper than it goes."""
    deep: Any = data(1)
    for _ in range(100):
        deep = (deep,)
    return len(through([*range(70_000), data(1)])), through(deep) is deep


# ---- a process group of one ----


@case
def dtensor() -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    group()
    mesh = init_device_mesh("cpu", (1,))
    model = parallelize_module(
        Plain(), mesh, {"up": ColwiseParallel(use_local_output=False), "down": RowwiseParallel()}
    )
    x = data(3, 4).requires_grad_()
    out = model(x)
    out.sum().backward()
    whole = through(distribute_tensor(data(4, 4), mesh, [Shard(0)]))
    return out, x.grad, whole.to_local(), str(whole.placements)


@case
def data_parallel() -> Any:
    group()
    model = nn.parallel.DistributedDataParallel(Plain())
    out = model(data(3, 4))
    out.sum().backward()
    return out, [p.grad for p in model.parameters()]


def group() -> None:
    import torch.distributed as dist

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def main() -> None:
    for name in sys.argv[1:] or CASES:
        tdump.step()
        try:
            result = digest(CASES[name]())
        except Exception as error:
            result = f"{type(error).__name__}: {str(error).splitlines()[:1]}"
        print(name, result, flush=True)
    print("rng", digest(torch.random.get_rng_state()))
    if torch.distributed.is_initialized():
        from gloo_end import end_gloo

        end_gloo()


if __name__ == "__main__":
    main()
