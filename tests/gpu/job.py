"""A job for tests/gpu/test_device.py: taps tensors of every kind, runs a model forward and backward. What tdump has to
find is saved beside it, by copies that torch makes. Argument: where to save them. On the CPU (TEST_DEVICE=cpu) what
only a CUDA device can do is left out."""

import os
import sys
import time

import tdump
import torch

DEVICE = os.environ.get("TEST_DEVICE", "cuda")
ON_CUDA = DEVICE == "cuda"
expected: dict[str, torch.Tensor] = {}
facts: dict[str, object] = {}


def keep(name: str, tensor: torch.Tensor) -> None:
    """Taps `tensor`, and the same bytes on the host under another name."""
    expected[name] = tensor.detach().cpu().resolve_conj().resolve_neg().clone()
    tdump.tap(tensor, name)
    tdump.tap(expected[name], "cpu_" + name)


def dtypes() -> None:
    plain = torch.arange(-3000, 3000, device=DEVICE, dtype=torch.float32) / 7
    for dtype in (
        torch.float64,
        torch.float32,
        torch.bfloat16,
        torch.float16,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.int8,
        torch.uint8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.bool,
        torch.complex64,
        torch.complex128,
    ):
        keep(str(dtype).removeprefix("torch."), plain.to(dtype))
    special = plain.clone()
    special[::7] = 0
    special[1::97] = float("nan")
    special[2::101] = float("inf")
    special[3::103] = float("-inf")
    keep("special", special)
    nan, inf = float("nan"), float("inf")
    for name, values in {"nan_within": [1, nan, 3], "nan_first": [nan, 1, 3], "all_nan": [nan] * 3}.items():
        keep(name, torch.tensor(values, device=DEVICE, dtype=torch.float32))
    keep("infinities", torch.tensor([inf, -inf, nan], device=DEVICE))
    keep("far", plain.to(torch.float64) + 1e6)


def views() -> None:
    base = torch.randn(64, 48, 10, device=DEVICE, dtype=torch.bfloat16)
    z = torch.randn(50, 40, device=DEVICE, dtype=torch.complex64)
    keep("transposed", base.permute(2, 0, 1))
    keep("strided", base[3::5, :, 1:9:2])
    keep("row", base[5])
    keep("odd_offset", torch.arange(20001, device=DEVICE, dtype=torch.uint8)[1:])
    keep("conj", z.conj())
    keep("neg", torch.imag(z.conj()))
    keep("scalar", torch.tensor(2.5, device=DEVICE))
    keep("empty", torch.empty(0, 5, device=DEVICE))
    keep("overlapping", torch.arange(100, device=DEVICE, dtype=torch.float32).as_strided((20, 10), (3, 2)))


def order() -> None:
    """Fault E03, and what the caching allocator does with freed memory."""
    seven = torch.full((64 << 20,), 7, device=DEVICE, dtype=torch.int32)  # 256 MiB
    tdump.tap(seven, "seven")
    seven.fill_(9)
    freed = torch.full((1 << 20,), 3, device=DEVICE)
    tdump.tap(freed, "freed")
    del freed
    reused = torch.full((1 << 20,), 4, device=DEVICE)
    tdump.tap(reused, "reused")
    keep("large", torch.arange(100 << 20, device=DEVICE, dtype=torch.int32))  # 400 MiB, more than the ring
    if not ON_CUDA:
        return
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        on_side = torch.full((1 << 20,), 5, device=DEVICE)
        tdump.tap(on_side, "on_side")
        on_side.fill_(6)
    torch.cuda.synchronize()
    torch.cuda._sleep(2_000_000_000)  # about a second
    behind = torch.full((1 << 20,), 8, device=DEVICE)
    before = time.perf_counter()
    tdump.tap(behind, "behind")
    facts["tap_seconds"] = time.perf_counter() - before
    facts["still_running"] = not torch.cuda.current_stream().query()
    torch.cuda.synchronize()


def graph(model: torch.nn.Module, x: torch.Tensor) -> None:
    """A graph capture goes through, and each replay of the graph computes what it did."""
    with torch.no_grad():
        eager = model(x)
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            model(x)
        torch.cuda.current_stream().wait_stream(warm)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            y = model(x)
        equal = []
        for _ in range(3):
            y.zero_()
            captured.replay()
            torch.cuda.synchronize()
            equal.append(torch.equal(y, eager))
    facts["graph_equal"] = all(equal)


def main() -> None:
    torch.manual_seed(0)
    free_before = torch.cuda.mem_get_info()[0] if ON_CUDA else 0
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.LayerNorm(256), torch.nn.ReLU(inplace=True), torch.nn.Linear(256, 64)
    ).to(DEVICE, torch.bfloat16)
    x = torch.randn(32, 64, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    outputs: dict[str, torch.Tensor] = {}
    hooks = [
        child.register_forward_hook(lambda m, a, out, name=name: outputs.__setitem__(name, out.detach().clone()))
        for name, child in model.named_children()
    ]
    tdump.step()
    loss = model(x).float().square().mean()
    loss.backward()
    for hook in hooks:
        hook.remove()
    expected.update({name: value.cpu() for name, value in outputs.items()})
    facts["loss"] = loss.item()
    facts["gradients"] = [p.grad.float().sum().item() for p in model.parameters()] + [x.grad.float().sum().item()]
    dtypes()
    views()
    order()
    if ON_CUDA:
        facts["used_by_tdump"] = free_before - torch.cuda.mem_get_info()[0] - torch.cuda.memory_reserved()
        tdump.step()
        graph(model, x)
    torch.save({"expected": expected, "facts": facts}, sys.argv[1])


main()
