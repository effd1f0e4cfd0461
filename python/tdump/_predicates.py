"""Predicates of the configuration: ``where: pkg.mod:func``, ``where: /path/file.py:func``, ``TDUMP_FILTER_FN``."""

from __future__ import annotations

import importlib
import importlib.util
import random
from collections.abc import Callable
from typing import Any

import torch

_loaded: dict[str, Callable[[str, Any], Any] | str] = {}


def evaluate(spec: str, name: str, module: Any) -> bool | str:
    """What the predicate says about the operator ``name``; ``module`` is the nn.Module or None. A str says what failed.
    Whatever it draws from the generators of torch and Python is put back."""
    torch_state, python_state = torch.default_generator.get_state(), random.getstate()
    try:
        function = _loaded.get(spec)
        if function is None:
            function = _loaded[spec] = _load(spec)
        return function if isinstance(function, str) else bool(function(name, module))
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        torch.default_generator.set_state(torch_state)
        random.setstate(python_state)


def _load(spec: str) -> Callable[[str, Any], Any] | str:
    """The function a spec names, or the text of what is wrong with it."""
    where, _, attribute = spec.rpartition(":")
    if not where or not attribute:
        return f"'{spec}' is not pkg.mod:func or /path/file.py:func"
    try:
        if where.endswith(".py"):
            location = importlib.util.spec_from_file_location(f"tdump_predicate_{len(_loaded)}", where)
            if location is None or location.loader is None:
                return f"{where} cannot be loaded"
            module = importlib.util.module_from_spec(location)
            location.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
        function = getattr(module, attribute)
        if not callable(function):
            return f"{spec} is not callable"
        return function
    except Exception as error:
        return f"{type(error).__name__}: {error}"
