"""``tdump.log``: what a function of the job makes of each tensor is recorded in place of its values."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _python_dispatch

from tdump import _torch

_functions: dict[object, Callable[[torch.Tensor], Any]] = {}  # by who asked for it; the last one is called


def add(asker: object, function: Callable[[torch.Tensor], Any]) -> None:
    _functions[asker] = function
    _torch.summary(_summarise)


def remove(asker: object) -> None:
    _functions.pop(asker, None)
    if not _functions:
        _torch.summary(None)


def _summarise(tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """Named parts of the summary. No mode of the job, its default device among them, sees what is computed here."""
    with torch._C.DisableTorchFunction(), _python_dispatch._disable_current_modes(), torch.no_grad():
        if tensor.is_cuda and torch.cuda.is_current_stream_capturing():  # a number would wait for the device
            _torch.note("tdump.log: no summaries while a CUDA graph is captured")
            return []
        try:
            with _same_random_numbers():
                found = next(reversed(_functions.values()))(tensor.detach())
            parts = found if isinstance(found, dict) else {"": found}
            return [(str(name), _as_tensor(value)) for name, value in parts.items() if value is not None]
        except KeyboardInterrupt:  # it is meant for the job
            raise
        except BaseException as error:
            _torch.note(f"tdump.log: the function raised {type(error).__name__}: {error}")
            return []


@contextlib.contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Whatever is drawn from the generators of torch and Python is put back; only then, since other threads of the job
    may draw meanwhile."""
    torch_state, python_state = torch.default_generator.get_state(), random.getstate()
    try:
        yield
    finally:
        if not torch.equal(torch.default_generator.get_state(), torch_state):
            torch.default_generator.set_state(torch_state)
        if random.getstate() != python_state:
            random.setstate(python_state)


def _as_tensor(value: Any) -> torch.Tensor:
    """Numbers keep the precision that they have in Python."""
    if isinstance(value, torch.Tensor):
        return value
    made = torch.as_tensor(value, device="cpu")
    if made.is_complex():
        return torch.as_tensor(value, dtype=torch.complex128, device="cpu")
    return torch.as_tensor(value, dtype=torch.float64, device="cpu") if made.is_floating_point() else made
