"""What an observer may disturb: gradients' buffers, threads, fused paths, hooks, generators. Prints what a bare run
prints."""

from __future__ import annotations

import hashlib
import random
import threading

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin, self.drop, self.norm = nn.Linear(8, 8), nn.Dropout(0.1), nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.drop(torch.relu(self.lin(x))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(checkpoint(self.first, x, use_reentrant=False))


def digest(*tensors: torch.Tensor) -> str:
    return hashlib.sha256(b"".join(t.detach().numpy().tobytes() for t in tensors)).hexdigest()[:16]


def gradients_keep_their_buffers() -> list[bool]:
    """autograd hands a gradient over without a copy as long as nobody else holds it."""
    lin, x = nn.Linear(4, 4, bias=False), torch.ones(2, 4)
    seen: list[int] = []
    lin.weight.register_hook(lambda g: seen.append(g.data_ptr()))
    lin(x).sum().backward()
    return [lin.weight.grad.data_ptr() == seen[0]]


def train() -> str:
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
    return digest(*model.state_dict().values())


def threads() -> str:
    """Four threads run one model at once, each its own input."""
    model = Block().eval()
    results: dict[int, torch.Tensor] = {}
    barrier = threading.Barrier(4)

    def run(n: int) -> None:
        x = torch.full((2, 8), float(n))
        barrier.wait()
        with torch.no_grad():
            for _ in range(20):
                results[n] = model(x)

    workers = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return digest(*(results[n] for n in range(4)))


def fused_path() -> str:
    """torch runs an encoder layer as one kernel unless a hook stands on one of its parts."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    calls: list[str] = []
    original = layer.self_attn.forward

    def counted(*args: object, **kwargs: object) -> object:
        calls.append("attention")
        return original(*args, **kwargs)

    layer.self_attn.forward = counted
    with torch.inference_mode():
        return digest(layer(torch.randn(1, 3, 8))) + str(calls)


def hooks_of_the_job() -> str:
    """They may replace inputs and outputs, in the order in which they stand."""
    lin = nn.Linear(8, 8)
    lin.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    lin.register_forward_hook(lambda m, args, out: out * 2)
    handle = nn.modules.module.register_module_forward_hook(lambda m, args, out: out - 1)
    out = lin(torch.zeros(1, 8))
    handle.remove()
    return digest(out, lin(torch.zeros(1, 8)))


def main() -> None:
    torch.manual_seed(1)
    random.seed(1)
    for run in (gradients_keep_their_buffers, train, threads, fused_path, hooks_of_the_job):
        print(run.__name__, run())
    print("rng", digest(torch.random.get_rng_state()), random.random())


if __name__ == "__main__":
    main()
