"""Module, optimizer and process-group hooks. ``install()`` is called once, by the loader, when the collectors run.

Rules of this file: a hook returns None, lets no exception out, and keeps no tensor and no module alive. Under
``torch.compile`` and ``torch.export`` a hook is traced with the model and must be empty then.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

from tdump import _naming, _predicates, _torch

_pre = _torch.pre
_post = _torch.post
_failed = _torch.failed
_installed = False


def _before_forward(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
    if is_compiling():
        return
    _pre(module, args)


def _after_forward(module: torch.nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
    if is_compiling():
        return
    # torch passes (kwargs, output); after an exception, to hooks that are always called, (result,) alone.
    if len(rest) == 2:
        _post(module, rest[0], rest[1])
    else:
        _failed(module)


def install() -> None:
    """Registers the hooks. Called again it does nothing."""
    global _installed
    if _installed or not _torch.start(_naming.resolve, _predicates.evaluate):
        return
    _installed = True
    torch_module.register_module_module_registration_hook(_naming.on_module)
    torch_module.register_module_parameter_registration_hook(_naming.on_parameter)
    torch_module.register_module_forward_pre_hook(_before_forward)
    torch_module.register_module_forward_hook(_after_forward, with_kwargs=True, always_call=True)
    _watch_optimizers()
    _watch_process_group()


# ---- optimizers: numbered in order of construction ----

_numbers: dict[int, int] = {}  # id -> number; an id reused by a later optimizer gets a new number when that is built
_built = 0


def _on_optimizer(optimizer: torch.optim.Optimizer) -> int:
    global _built
    _numbers[id(optimizer)] = _built
    _torch.boundary("optimizer_created", _built, type(optimizer).__name__)
    _built += 1
    return _built - 1


def _after_step(optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if is_compiling():
        return
    try:
        number = _numbers.get(id(optimizer))
        if number is None:  # copied or unpickled
            number = _on_optimizer(optimizer)
        _torch.boundary("optimizer_step", number, type(optimizer).__name__)
    except Exception:
        pass


def _watch_optimizers() -> None:
    torch_optimizer.register_optimizer_step_post_hook(_after_step)
    # torch has no hook for the construction of an optimizer, which `steps.boundary: auto` needs to know before its first
    # step; __init__ is replaced by a function that calls it and then counts.
    original = torch.optim.Optimizer.__init__

    @functools.wraps(original)
    def counting_init(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        try:
            _on_optimizer(self)
        except Exception:
            pass

    torch.optim.Optimizer.__init__ = counting_init  # type: ignore[method-assign]


# ---- process group: who this process is ----


def _watch_process_group() -> None:
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d

    if distributed_c10d.is_initialized():
        _on_process_group()
    original = distributed_c10d.init_process_group

    @functools.wraps(original)
    def telling_init(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        _on_process_group()
        return result

    for holder in (distributed_c10d, torch.distributed):
        if getattr(holder, "init_process_group", None) is original:
            holder.init_process_group = telling_init


def _on_process_group() -> None:
    try:
        distributed = sys.modules["torch.distributed"]
        _torch.boundary("process_group", 0, "", -1, distributed.get_rank(), distributed.get_world_size())
    except Exception:
        pass
