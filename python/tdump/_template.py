"""What ``tdump.print`` shows, as arguments of an operator: tensors, numbers, and a text that says how they are nested.

``encode`` is traced by compilers, so that what it finds may be symbolic; ``decode`` runs when the graph does.

    text := t              the next tensor
          | f | i          the next number: of the scalars (float), of the integers
          | s<n>:<bytes>   a str of n characters
          | o<n>:<bytes>   anything else, as str() shows it
          | n text text    a number of NumPy: as str() shows it, and as one of Python
          | ( { [ z text* ) a tuple, dict (keys and values in turn), list, torch.Size
"""

from __future__ import annotations

import sys
from typing import Any

import torch


class Parts:
    """Tensors, scalars and integers in the order in which the text names them."""

    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []
        self.scalars: list[torch.Tensor] = []
        self.integers: list[int] = []


def encode(value: Any, parts: Parts) -> str:
    if isinstance(value, torch.Tensor):
        parts.tensors.append(value)
        return "t"
    if isinstance(value, str):
        return f"s{len(value)}:{value}"
    if isinstance(value, torch.Size):
        return _all("z", value, parts)
    if isinstance(value, tuple):
        return _all("(", value, parts)
    if isinstance(value, list):
        return _all("[", value, parts)
    if isinstance(value, dict):
        return _all("{", [item for pair in value.items() for item in pair], parts)
    if isinstance(value, (bool, torch.SymBool)) or value is None:
        return _shown(str(value))
    if isinstance(value, (int, torch.SymInt)) and _fits(value):
        parts.integers.append(value)
        return "i"
    if isinstance(value, (float, torch.SymFloat)):
        parts.scalars.append(torch.scalar_tensor(value, dtype=torch.float64, device="cpu"))
        return "f"
    number = _of_numpy(value)
    if number is not None:
        return f"n{_shown(str(value))}{encode(number, parts)}"
    return _shown(str(value))


def _of_numpy(value: Any) -> int | float | None:
    numpy = None if torch.compiler.is_compiling() else sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(value, numpy.integer):
        return int(value)
    return float(value) if isinstance(value, numpy.floating) else None


def of_print(text: str) -> str:
    """The template of what ``tdump.print`` encoded."""
    return _Reader(text, {}, [], []).value() if text.startswith("s") else ""


def decode(text: str, tensors: dict[int, Any], scalars: list[torch.Tensor], integers: list[int]) -> list[Any]:
    """The values that were encoded one after the other. A tensor that is not there is None."""
    reader = _Reader(text, tensors, scalars, integers)
    values = []
    while reader.at < len(text):
        values.append(reader.value())
    return values


def _all(sort: str, items: Any, parts: Parts) -> str:
    return sort + "".join([encode(item, parts) for item in items]) + ")"


def _shown(text: str) -> str:
    return f"o{len(text)}:{text}"


def _fits(number: Any) -> bool:
    """A symbolic one does, and is not looked at."""
    return torch.compiler.is_compiling() or -(2**63) <= number < 2**63


class _Shown(str):
    """Without the quotes of a str, also within a tuple."""

    def __repr__(self) -> str:
        return str(self)


class _Number:
    """Without a format as NumPy shows it."""

    def __init__(self, text: str, number: Any) -> None:
        self.text, self.number = text, number

    def __format__(self, spec: str) -> str:
        return format(self.number, spec) if spec else self.text

    def __repr__(self) -> str:
        return self.text


class _Reader:
    def __init__(self, text: str, tensors: dict[int, Any], scalars: list[torch.Tensor], integers: list[int]) -> None:
        self.text, self.at = text, 0
        self.tensors, self.next_tensor = tensors, 0
        self.scalars, self.integers = iter(scalars), iter(integers)

    def value(self) -> Any:
        sort = self.text[self.at]
        self.at += 1
        if sort == "t":
            self.next_tensor += 1
            return self.tensors.get(self.next_tensor - 1)
        if sort == "f":
            return next(self.scalars).item()
        if sort == "i":
            return int(next(self.integers))
        if sort in "so":
            return self.characters() if sort == "s" else _Shown(self.characters())
        if sort == "n":
            return _Number(self.value(), self.value())
        items = []
        while self.text[self.at] != ")":
            items.append(self.value())
        self.at += 1
        return _container(sort, items)

    def characters(self) -> str:
        begin = self.text.index(":", self.at) + 1
        end = begin + int(self.text[self.at : begin - 1])
        self.at = end
        return self.text[begin:end]


def _container(sort: str, items: list[Any]) -> Any:
    if sort == "z":
        return torch.Size(items)
    if sort == "{":
        return dict(zip(items[::2], items[1::2], strict=True))
    return tuple(items) if sort == "(" else items
