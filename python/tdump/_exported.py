"""Modules inside what ``torch.export`` makes, without ``strict``: it runs the hooks of a module call, which put
operators that hand its values over into the program (collectors/torch/exported_calls.h). They stay in what is made of
it.

Called from tdump/_compiled.py, under its rules.
"""

from __future__ import annotations

import dataclasses
import sys
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch
from torch.nn import Module

from tdump import _naming, _torch

_OUTPUTS, _INPUTS = 1, 4  # bits of _torch.traced_wants()
_INPUT, _LATE, _OUTPUT = "ilo"
_MOST, _DEEPEST = 4096, 32  # values of one call, containers around one
_SAYS = (
    "torch.export: the program hands the values of its modules over, by compile.taps; what is made of it (a package of "
    "AOTInductor) can be loaded only where tdump runs. Export with compile.taps: off for anything else"
)
# Of torch itself, around the model.
_AROUND = ("torch.export.", "torch._export.", "torch.fx.", "torch._dynamo.", "torch._functorch.")

_program: _Program | None = None
_defined = False


def before(module: Module, args: tuple[Any, ...]) -> None:
    """In the pre-hook of a module that is exported. One that the model made for this call has no name there."""
    global _program
    module = _real(module)
    if _is_around(module):
        return
    program = _program
    if program is not None and not program.has(module) and program.is_running():
        return
    if program is None or not program.has(module) or program.root() is module:
        _define()
        program = _program = _Program(module)
        _naming.remark(_SAYS)
        program.emit(module, "begin", _tensors(args, "", _INPUT))
    elif program.wanted(module) & _INPUTS:
        program.emit(module, "begin", _tensors(args, "", _INPUT))


def after(module: Module, kwargs: dict[str, Any], output: Any) -> None:
    """In its hook."""
    global _program
    module, program = _real(module), _program
    if program is None or not program.has(module):
        return
    root, wanted = program.root() is module, program.wanted(module)
    values = [*_tensors(kwargs, "kwargs", _LATE)] if wanted & _INPUTS or root else []
    if wanted & _OUTPUTS or root:
        values += _tensors(output, "", _OUTPUT)
    if root:
        _program = None
    if wanted or root:
        program.emit(module, "end" if wanted & _INPUTS or root else "whole", values)


def _define() -> None:
    global _defined
    if _defined:
        return
    torch.library.register_fake("tdump::exported_call", lambda *_: None)
    torch.library._register_effectful_op("tdump::exported_call", torch._library.effects.EffectType.ORDERED)
    _defined = True


def _real(module: Any) -> Module:
    """What stands for the module while it is exported is of a class made for that."""
    while any(cls.__name__ == "_AttrProxy" for cls in type(module).__mro__):
        module = module.get_base()
    return module


def _is_around(module: Module) -> bool:
    return _naming.qualified(type(module)).startswith(_AROUND) or isinstance(module, torch.fx.GraphModule)


class _Program:
    """What is known of the modules of one program while it is being made."""

    def __init__(self, root: Module) -> None:
        self.root = weakref.ref(root)
        if not _torch.known(root):
            _naming.describe_tree(root)
        self.prefix = _naming.prefix_of(root)
        self.paths: dict[int, list[str]] = {}
        for path, module in _naming.named_parts(root):
            self.paths.setdefault(id(module), []).append(path or ".")

    def has(self, module: Module) -> bool:
        return self.root() is not None and id(module) in self.paths

    def is_running(self) -> bool:
        """Whether this thread is in a call of the root. An export that failed left its program open."""
        root = self.root()
        frame: FrameType | None = sys._getframe()
        while root is not None and frame is not None:
            if frame.f_code is Module._call_impl.__code__ and _real(frame.f_locals["self"]) is root:
                return True
            frame = frame.f_back
        return False

    def wanted(self, module: Module) -> int:
        return _torch.traced_wants(module)

    def emit(self, module: Module, part: str, named: list[tuple[str, torch.Tensor]]) -> None:
        first, *aliases = self.paths[id(module)]
        leaf = "node" if _naming.children(module) else "leaf"
        place = "root" if self.root() is module else "part"
        cls = _naming.class_name(module)
        words = ("1", part, self.prefix, first, cls, leaf, place)
        others = "\t".join(map(_escaped, aliases))
        site = "\n".join((*map(_escaped, words), others, *(_escaped(name) for name, _ in named)))
        torch.ops.tdump.exported_call([value for _, value in named], site)


_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\0": "\\0"})


def _escaped(text: str) -> str:
    return text.encode("utf-8", "replace").decode().translate(_ESCAPES)


def _tensors(value: Any, path: str, kind: str) -> list[tuple[str, torch.Tensor]]:
    return [(f"{kind} {name}", tensor) for name, tensor in _flat(value, path, 0)][:_MOST]


def _flat(value: Any, path: str, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Under the names that they have in eager code (collectors/python/flatten.h)."""
    if isinstance(value, torch.Tensor):
        yield path, value
        return
    items: list[tuple[str, Any]] = []
    fields = getattr(type(value), "_fields", None)
    if isinstance(value, (tuple, list)):
        named = isinstance(fields, tuple) and len(fields) == len(value)
        items = list(zip(fields if named else map(str, range(len(value))), value, strict=True))
    elif isinstance(value, dict):
        items = [(str(key) if type(key) in (str, int) else f"key{n}", value[key]) for n, key in enumerate(value)]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    for name, item in items if depth < _DEEPEST else ():
        yield from _flat(item, f"{path}.{name}" if path else name, depth + 1)
