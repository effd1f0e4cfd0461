"""Modules of TorchScript: what is in them, what their classes were called, and which of them were one module. How their
calls are seen: collectors/torch/scripted_calls.h."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch.nn import Module

from tdump import _torch

_OFF = (
    "TorchScript: modules inside a script module run without hooks; not captured (compile.taps: on captures them, as "
    "an experiment)"
)


def is_script(module: Module) -> bool:
    """Without the compiler (``PYTORCH_JIT=0``) a ScriptModule is a module like others."""
    return isinstance(module, torch.jit.ScriptModule) and "_c" in members(module)


def members(module: Module) -> dict[str, Any]:
    """Where a module has ``_modules`` and ``_parameters``; what torch.jit.trace gives has them in a module inside."""
    return module.__dict__.get("_actual_script_module", module).__dict__


def class_name(module: Module) -> str:
    """Of the class in Python: ``__torch__.pkg.___torch_mangle_3.Cls`` was ``pkg.Cls``."""
    name = module._c._type().qualified_name()  # type: ignore[operator, union-attr]
    return re.sub(r"___torch_mangle_\d+\.", "", name).removeprefix("__torch__.")


def origin(module: Module) -> Module | None:
    """What torch.jit.script made the module of. It lives as long: ``forward`` refers to it."""
    wrapped = getattr(module.__dict__.get("forward"), "__wrapped__", None) if is_script(module) else None
    found = getattr(wrapped, "__self__", None)
    return found if isinstance(found, Module) and found is not module else None


def describe(modules: list[Module]) -> None:
    """Tells the collector of named modules which objects of TorchScript they are."""
    if not any(is_script(module) for module in modules):
        return
    if not _torch.scripted_start():  # the note says nothing in a process that records nothing
        _torch.note(_OFF)
        return
    try:
        object_of, _ = torch._C._jit_get_operation("tdump::scripted_object")
        for module in modules:
            if is_script(module):
                address, _ = object_of(module._c)
                _torch.scripted(module, address)
    except Exception as error:
        _torch.note(f"TorchScript: a script module cannot be followed ({type(error).__name__}: {error}); not captured")


def twins(parts: list[Module]) -> dict[int, Module]:
    """TorchScript makes a module that is used at several places anew for each. Those of one class that have the same
    parameters and buffers were one: by id of the later ones and of their parts, the first."""
    first: dict[Any, Module] = {}
    found: dict[int, Module] = {}
    for module in parts:
        if not is_script(module) or id(module) in found or (key := _key(module)) is None:
            continue
        before = first.setdefault(key, module)
        if before is not module:
            _pair(module, before, found)
    return found


def _key(module: Module) -> Any:
    """What twins have in common. None: there is nothing to tell the module by."""
    try:
        places = tuple(_place(tensor) for tensor in (*module.parameters(), *module.buffers()))
        inside = tuple((name, class_name(part)) for name, part in module.named_modules() if is_script(part))
    except Exception:  # of a class that takes tensors, or modules, its own way
        return None
    return (inside, places) if None not in places and any(address for address, *_ in places) else None


def _place(tensor: torch.Tensor) -> tuple[int, torch.Size, tuple[int, ...]] | None:
    """None: the tensor is at no one place."""
    if tensor.layout != torch.strided:
        return None
    return tensor.data_ptr(), tensor.shape, tensor.stride()


def _pair(module: Module, before: Module, found: dict[int, Module]) -> None:
    found[id(module)] = found.get(id(before), before)
    parts = dict(members(before)["_modules"].items())
    for name, part in members(module)["_modules"].items():
        if name in parts:
            _pair(part, parts[name], found)
