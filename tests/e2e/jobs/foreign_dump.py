"""A small model that dumps itself the way other tools do, into directories named by KIND, and with a changed weight into
"faulty_KIND".

    foreign_dump.py [KIND...]

KIND: "pass" (SGLang and phyai: a dictionary of leaf outputs for each step), "tagged" (SGLang's dumper: a file a tensor),
"probe" (msprobe: dump.json and a file a tensor), "state" (the weights, as safetensors and as a .pt). Without one the model
only runs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.act = nn.GELU()
        self.down = nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.layers = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(16, 11)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.transpose(0, 1))  # a view: dumped with its strides


def leaves(model: nn.Module):
    return [(name, module) for name, module in model.named_modules() if not list(module.children())]


class Passes:
    def __init__(self, directory: Path) -> None:
        self.directory, self.tensors, self.step = directory / "TP0_PP0_Rank0_pid7", {}, 0
        self.directory.mkdir(parents=True)

    def add(self, name, module, args, output) -> None:
        # The name of a leaf that ran before in this step gets the number of the call.
        calls = sum(key.split("::call")[0] == name for key in self.tensors)
        self.tensors[name if calls == 0 else f"{name}::call{calls}"] = output

    def end(self) -> None:
        torch.save(self.tensors, self.directory / f"Pass{self.step:05d}.pt")
        self.tensors, self.step = {}, self.step + 1


class Tagged:
    def __init__(self, directory: Path) -> None:
        self.directory, self.index, self.step = directory / "dump_1", 0, 0
        self.directory.mkdir(parents=True)

    def add(self, name, module, args, output) -> None:
        for kind, value in (("inputs.0", args[0]), ("output", output)):
            self.index += 1
            tags = f"step={self.step}___rank=0___dump_index={self.index}___name=non_intrusive__{name}.{kind}"
            meta = {"name": name, "dtype": value.dtype, "rank": 0}
            torch.save({"value": value, "meta": meta}, self.directory / f"{tags}.pt")

    def end(self) -> None:
        self.step += 1


class Probe:
    def __init__(self, directory: Path) -> None:
        self.directory, self.data, self.step = directory, {}, 0

    def describe(self, entry: str, category: str, index: str, value) -> dict:
        place = self.directory / f"step{self.step}" / "rank0" / "dump_tensor_data"
        place.mkdir(parents=True, exist_ok=True)
        file = f"{entry}.{category}.{index}.pt"
        torch.save(value, place / file)
        largest = float("nan") if value.dtype == torch.int64 else value.max().item()
        shape = list(value.shape)
        return {"type": "torch.Tensor", "dtype": str(value.dtype), "shape": shape, "Max": largest, "data_name": file}

    def add(self, name, module, args, output) -> None:
        entry = f"Module.{name}.{type(module).__name__}.forward.0"
        self.data[entry] = {
            "input_args": [self.describe(entry, "input", "0", args[0])],
            "input_kwargs": {},
            "output": [self.describe(entry, "output", "0", output)],
            "parameters": {k: self.describe(entry, "parameters", k, v) for k, v in module.named_parameters()},
        }

    def end(self) -> None:
        index = {"task": "tensor", "level": "L0", "framework": "pytorch", "dump_data_dir": "/x", "data": self.data}
        (self.directory / f"step{self.step}" / "rank0" / "dump.json").write_text(json.dumps(index))
        self.data, self.step = {}, self.step + 1


def save_weights(model: nn.Module, directory: Path) -> None:
    from safetensors.torch import save_file

    directory.mkdir(parents=True)
    save_file(model.state_dict(), directory / "model.safetensors")
    torch.save(model.state_dict(), directory / "model.pt")


def run(kind: str | None, directory: Path, fault: float = 1) -> None:
    torch.manual_seed(0)
    model = Model().eval()
    with torch.no_grad():
        model.layers[1].up.weight[3, 5] *= fault
    if kind == "state":
        return save_weights(model, directory)
    dump = {"pass": Passes, "tagged": Tagged, "probe": Probe}[kind](directory) if kind else None
    if dump is not None:
        for name, module in leaves(model):
            module.register_forward_hook(
                lambda module, args, output, name=name: dump.add(name, module, args, output.detach())
            )
    for step in range(2):
        with torch.no_grad():
            model(torch.arange(6).reshape(2, 3) + step)
        if dump is not None:
            dump.end()


if __name__ == "__main__":
    for kind in sys.argv[1:] or [None]:
        run(kind, Path(kind or "."))
        if kind not in (None, "state"):
            run(kind, Path(f"faulty_{kind}"), fault=3)
