"""``tdump.instrument``: looks at, or records, what every module of a model gives, and its gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tdump import _api, _inspect, _ranks, _tracers


class Instrumented:
    """Takes the hooks off again: ``remove()``, or the end of a ``with`` block."""

    def __init__(self, inspector: _inspect.inspector) -> None:
        self._inspector, self._handles = inspector, []

    def remove(self) -> None:
        self._inspector.close()  # compiled code keeps the call, which does nothing any more
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def __enter__(self) -> Instrumented:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


def instrument(
    model: torch.nn.Module,
    fwd: _inspect.Callback | None = None,
    bwd: _inspect.Callback | None = None,
    *,
    record: bool = False,
    ranks: _ranks.Ranks = None,
) -> Instrumented:
    """Shows the outputs of all modules to ``fwd`` and their gradients to ``bwd``, as ``tdump.inspector`` does; the tag
    is class and path, ``Linear:encoder.0.fc`` (``.`` for the model itself). Without any callback both print dtype,
    shape and norm; with ``record=True`` both record it as a tap of that name instead, also in compiled regions.

    The hooks are those of ``register_forward_hook``. Call this before a compiled model runs for the first time: what is
    compiled already looks at no hooks.
    """
    if record:
        fwd, bwd = _record_value, _record_gradient
    look = _inspect.inspector(fwd, bwd)
    instrumented = Instrumented(look)
    model = getattr(model, "_orig_mod", model)  # of what torch.compile gave
    try:
        wanted = _ranks.as_text(ranks)
    except Exception as error:
        _inspect._tell_once("instrument", error)
        return instrumented
    for path, module in model.named_modules():
        hook = _hook(look, f"{type(module).__name__}:{path or '.'}", wanted)
        instrumented._handles.append(module.register_forward_hook(hook))
    return instrumented


def _hook(look: _inspect.inspector, tag: str, ranks: str) -> Callable[..., None]:
    def hook(module: torch.nn.Module, args: Any, output: Any) -> None:
        look(output, tag=tag, ranks=ranks)

    # The hooks of a compiled model's root run outside of its graph, where a graph of their own would show no gradient.
    _tracers.never_compile_alone(hook.__code__)
    return hook


def _record_value(tensor: torch.Tensor, tag: str) -> None:
    if _api._collector is not None:
        _api._collector.record(tensor, tag, "forward")


def _record_gradient(tensor: torch.Tensor, tag: str) -> None:
    if _api._collector is not None:
        _api._collector.record(tensor, tag, "backward")
