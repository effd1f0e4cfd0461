"""A small model that dumps itself the way other tools do, into directories named by KIND, and with a changed weight into
"faulty_KIND".

    foreign_dump.py [KIND...]

KIND: "pass" (SGLang: a dictionary of outputs for each pass of the module `model`, which ends in the next file), "tagged"
(SGLang's dumper: hooks on every module, a file a tensor), "probe" (msprobe: dump.json and a file a tensor), "state" (the
weights, as safetensors and as a .pt). Without one the model only runs.
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


class Server(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.scale = nn.LayerNorm(11)

    def forward(self, ids):
        return self.scale(self.model(ids))


class Passes:
    """Leaves and `model`; its hook writes the file before it takes the output."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.tensors, self.step = directory / "TP0_PP0_Rank0_pid7", {}, 0
        self.directory.mkdir(parents=True)

    def before(self, name, module, args) -> None:
        pass

    def after(self, name, module, args, output) -> None:
        if name == "model":
            torch.save(self.tensors, self.directory / f"Pass{self.step:05d}.pt")
            self.tensors, self.step = {}, self.step + 1
        if name == "model" or not list(module.children()):
            self.tensors[name] = output

    def end(self) -> None:
        pass


class Tagged:
    def __init__(self, directory: Path) -> None:
        self.directory, self.index, self.step = directory / "dump_1", 0, 0
        self.directory.mkdir(parents=True)

    def write(self, name: str, kind: str, value) -> None:
        self.index += 1
        layer = next((f"___layer_id={part}" for part in name.split(".") if part.isdigit()), "")
        path = f"{name}.{kind}" if name else kind
        tags = f"step={self.step}___rank=0___dump_index={self.index}___name=non_intrusive__{path}"
        meta = {"name": name, "dtype": value.dtype, "rank": 0}
        torch.save({"value": value, "meta": meta}, self.directory / f"{tags}___recompute_status=disabled{layer}.pt")

    def before(self, name, module, args) -> None:
        self.write(name, "inputs.0", args[0])

    def after(self, name, module, args, output) -> None:
        self.write(name, "output", output)

    def end(self) -> None:
        self.step += 1


class Probe:
    def __init__(self, directory: Path) -> None:
        self.directory, self.data, self.step = directory, {}, 0

    def place(self) -> Path:
        return self.directory / f"step{self.step}" / "proc77"  # a job without ranks

    def describe(self, entry: str, category: str, index: str, value) -> dict:
        place = self.place() / "dump_tensor_data"
        place.mkdir(parents=True, exist_ok=True)
        file = f"{entry}.{category}.{index}.pt"
        torch.save(value, place / file)
        largest = float("nan") if value.dtype == torch.int64 else value.max().item()
        shape = list(value.shape)
        return {"type": "torch.Tensor", "dtype": str(value.dtype), "shape": shape, "Max": largest, "data_name": file}

    def before(self, name, module, args) -> None:
        pass

    def after(self, name, module, args, output) -> None:
        if not name:
            return
        for kind, value in zip(("weight", "bias"), module.parameters(recurse=False), strict=False):
            self.function(name, kind, value)
        entry = f"Module.{name}.{type(module).__name__}.forward.0"
        self.data[entry] = {
            "input_args": [self.describe(entry, "input", "0", args[0])],
            "input_kwargs": {},
            "output": [self.describe(entry, "output", "0", output)],
            "parameters": {
                k: self.describe(entry, "parameters", k, v) for k, v in module.named_parameters(recurse=False)
            },
        }

    def function(self, name: str, kind: str, value) -> None:
        """What the module was computed by has the parameter as an argument, before the module itself is told."""
        entry = f"Functional.{name.replace('.', '_')}_{kind}.0.forward"
        self.data[entry] = {"input_args": [self.describe(entry, "input", "0", value)], "output": []}

    def end(self) -> None:
        index = {"task": "tensor", "level": "L0", "framework": "pytorch", "dump_data_dir": "/x", "data": self.data}
        (self.place() / "dump.json").write_text(json.dumps(index))
        self.data, self.step = {}, self.step + 1


def save_weights(model: nn.Module, directory: Path) -> None:
    from safetensors.torch import save_file

    directory.mkdir(parents=True)
    save_file(model.state_dict(), directory / "model.safetensors")
    torch.save(model.state_dict(), directory / "model.pt")


def run(kind: str | None, directory: Path, fault: float = 1) -> None:
    torch.manual_seed(0)
    model = Server().eval()
    with torch.no_grad():
        model.model.layers[1].up.weight[3, 5] *= fault
    if kind == "state":
        return save_weights(model, directory)
    dump = {"pass": Passes, "tagged": Tagged, "probe": Probe}[kind](directory) if kind else None
    if dump is not None:
        for name, module in model.named_modules():
            module.register_forward_pre_hook(lambda module, args, name=name: dump.before(name, module, args))
            module.register_forward_hook(
                lambda module, args, output, name=name: dump.after(name, module, args, output.detach())
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
