"""What Dynamo knows of the values of a region that it traces, read without changing what it makes: where it found one,
the tensors in it, constants. For tdump/_compiled.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

MAX_VALUES = 4096  # of one call


class NotHere(Exception):
    """Why the values of a call cannot be handed over."""


def bases(source: Any) -> Iterator[Any]:
    """Where Dynamo found something, and what it went through to find it."""
    while source is not None:
        yield source
        source = getattr(source, "base", None)


def constant(variable: Any) -> Any:
    from torch._dynamo.variables import ConstantVariable

    plain = _is_unused(variable) or isinstance(variable, ConstantVariable)
    items = () if plain else getattr(variable, "items", ())
    for value in (variable, *items):
        # To look at an argument, or at what differs from module to module, would compile anew for each value.
        if _is_unused(value) and type(value.source).__name__ not in ("GlobalSource", "DefaultsSource"):
            raise NotHere("a tap whose name, tags, phase or ranks are arguments or attributes")
    try:
        return real(variable).as_python_constant()
    except NotImplementedError:
        raise NotHere("a tap whose name, tags, phase or ranks are computed") from None


def text(value: Any) -> str:
    """Of a name or tag, as in eager code."""
    return str(value) if isinstance(value, (str, int, float)) else f"<{type(value).__name__}>"


def real(variable: Any) -> Any:
    return variable.realize() if hasattr(variable, "realize") else variable


def values(tx: Any, value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The tensors in what a module takes or gives, under the names they have in eager code
    (collectors/python/flatten.h)."""
    from torch._dynamo import variables
    from torch._dynamo.variables.lists import BaseListVariable

    if _is_unused(value) and not _holds_tensor(value.peek_value()):
        return
    value = real(value)
    if isinstance(value, variables.TensorVariable):
        if not is_plain(value):
            raise NotHere("a tensor subclass, or one without strides, in a compiled region")
        yield path, value
        return
    items: list[tuple[str, Any]] = []
    if depth == 32:
        raise NotHere("containers nested more than 32 deep")
    container = _container(value)
    if isinstance(container, BaseListVariable):
        fields = getattr(value.python_type(), "_fields", None)
        named = isinstance(fields, tuple) and len(fields) == len(container.items)
        items = list(zip(fields if named else map(str, range(len(container.items))), container.items, strict=True))
    elif isinstance(container, variables.ConstDictVariable):
        items = [(_key(key.vt, n), item) for n, (key, item) in enumerate(container.items.items())]
    elif isinstance(value, variables.UserDefinedObjectVariable) and dataclasses.is_dataclass(value.value):
        items = [(field.name, attribute(tx, value, field.name)) for field in dataclasses.fields(value.value)]
    for name, item in items:
        yield from values(tx, item, f"{path}.{name}" if path else name, depth + 1)


def _container(variable: Any) -> Any:
    """What has the items: of a subclass of tuple, list or dict that variable itself, with torch 2.11 one below it."""
    below = (getattr(variable, name, None) for name in ("_tuple_vt", "_list_vt", "_dict_vt"))
    return next((other for other in below if other is not None), variable)


def _is_unused(variable: Any) -> bool:
    """Whether the job has not looked at this value so far. To look at it here would add guards: code that is compiled
    again where they fail."""
    return hasattr(type(variable), "peek_value") and not variable.is_realized()


def _holds_tensor(value: Any) -> bool:
    """True too of what goes on for long: that is looked at."""
    left, seen = [value], {id(value)}
    while left:
        value = left.pop()
        if isinstance(value, torch.Tensor) or len(seen) > MAX_VALUES:
            return True
        items: Any = ()
        if isinstance(value, (list, tuple)):
            items = value
        elif isinstance(value, dict):
            items = value.values()
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            items = [getattr(value, field.name, None) for field in dataclasses.fields(value)]
        for item in items:
            if id(item) not in seen:
                seen.add(id(item))
                left.append(item)
    return False


def attribute(tx: Any, variable: Any, name: str) -> Any:
    from torch._dynamo.variables.base import VariableTracker

    return VariableTracker.build(tx, getattr).call_function(tx, [variable, VariableTracker.build(tx, name)], {})


def _key(key: Any, position: int) -> str:
    text = key.as_python_constant() if key.is_python_constant() else None
    return str(text) if type(text) in (str, int) else f"key{position}"


def is_plain(variable: Any) -> bool:
    from torch._subclasses import FakeTensor

    fake = variable.as_proxy().node.meta.get("example_value")
    if type(fake) is not FakeTensor or variable.class_type not in (torch.Tensor, torch.nn.Parameter):
        return False
    return fake.layout is torch.strided and not fake.is_nested and not fake.is_quantized and not fake.is_meta
