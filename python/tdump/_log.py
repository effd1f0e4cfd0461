"""``tdump.log``: what a function of the job makes of each tensor is recorded in place of its values."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _python_dispatch

from tdump import _torch

_functions: list[Callable[[torch.Tensor], Any]] = []  # the last one is asked


def add(function: Callable[[torch.Tensor], Any]) -> None:
    _functions.append(function)
    _torch.summary(_summarise)


def remove(function: Callable[[torch.Tensor], Any]) -> None:
    if function in _functions:
        _functions.remove(function)
    if not _functions:
        _torch.summary(None)


def _summarise(tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """Named parts of the summary. Whatever the function draws from the generators of torch and Python is put back, and
    no dispatch mode of the job sees what it computes."""
    torch_state, python_state = torch.default_generator.get_state(), random.getstate()
    try:
        with torch.no_grad(), _python_dispatch._disable_current_modes():
            found = _functions[-1](tensor.detach())
            parts = found if isinstance(found, dict) else {"": found}
            return [(str(name), _as_tensor(value)) for name, value in parts.items() if value is not None]
    except Exception as error:
        _torch.note(f"tdump.log: the function raised {type(error).__name__}: {error}")
        return []
    finally:
        torch.default_generator.set_state(torch_state)
        random.setstate(python_state)


def _as_tensor(value: Any) -> torch.Tensor:
    """Numbers keep the precision that they have in Python."""
    if isinstance(value, torch.Tensor):
        return value
    made = torch.as_tensor(value)
    return torch.as_tensor(value, dtype=torch.float64) if made.is_floating_point() else made
