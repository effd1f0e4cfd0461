"""Module, optimizer and process-group hooks. ``install()`` is called once, by the loader, when the collectors run.

Rules of this file: a hook returns None, lets no exception out (but what a signal handler of the job raises and is no
``Exception``: Ctrl-C), and keeps no tensor and no module alive. Under
``torch.compile`` a hook is traced with the model, and calls tdump/_compiled.py; under ``torch.export`` it must be
empty.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

from tdump import _api, _compiled, _log, _naming, _predicates, _ranks, _torch, _tracers

_pre = _torch.pre
_post = _torch.post
_failed = _torch.failed
_enter = _torch.enter
_leave = _torch.leave
_trace_before = _compiled.before
_trace_after = _compiled.after
_trace_tap = _compiled.tap
_trace_lazy_tap = _compiled.lazy_tap
_tracing_taps = _compiled.tracing_taps
_installed = False


def _before_forward(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
    if is_compiling():
        _trace_before()
        return
    _pre(module, args)


def _after_forward(module: torch.nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
    # torch passes (kwargs, output); after an exception, to hooks that are always called, (result,) alone.
    if is_compiling():
        if len(rest) == 2:
            _trace_after()
        return
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
    torch_module.register_module_module_registration_hook(_on_new_part)
    torch_module.register_module_parameter_registration_hook(_on_new_parameter)
    _naming.module_hands_over = _compiled.is_handing_over
    _compiled.keep_out(_before_forward, _after_forward, tap)
    _stand()
    _torch.hook_switch(_rest, _stand)
    _tracers.stay_out_of_the_warning(_before_forward, _after_forward)
    _watch_optimizers()
    _watch_process_group()
    _api._collector = sys.modules[__name__]


# ---- off is free: the module hooks rest while no step is recorded (collectors/python/resting_hooks.h) ----

_standing: list[Any] = []  # handles of the hooks, empty while they rest
_watched: list[type] = []  # classes whose __call__ is replaced while they rest
_resting: list[type] = []  # these, and those that have it of one of them


def _something_is_compiled() -> bool:
    """Compiled code guards on the global hooks: to take them away would compile it anew."""
    frame = sys.modules.get("torch._dynamo.eval_frame")
    if frame is None:
        return False
    backends = getattr(frame, "cached_backends", None)
    if backends is None:
        return True
    for backend in backends.values():  # noqa: SIM110, a generator costs more, in every step
        if backend is not None:  # None: of a function that is never compiled
            return True
    return False


def _stand() -> None:
    for cls in _watched:
        if _is_watched(cls):  # else the job has put one of its own there
            del cls.__call__
    _watched.clear()
    _resting.clear()
    if _standing:
        return
    before = torch_module.register_module_forward_pre_hook(_before_forward)
    after = torch_module.register_module_forward_hook(_after_forward, with_kwargs=True, always_call=True)
    # The first, as they were when they were installed: a hook of the job may change what it is given.
    torch_module._global_forward_pre_hooks.move_to_end(before.id, last=False)
    torch_module._global_forward_hooks.move_to_end(after.id, last=False)
    _standing.extend((before, after))


def _rest(modules: list[torch.nn.Module]) -> bool:
    classes = {type(module) for module in modules}
    # One with a __call__ of its own has its reasons.
    usual = all(cls is not torch.nn.Module and cls.__call__ is torch.nn.Module.__call__ for cls in classes)
    if not usual or _something_is_compiled():
        return False
    try:
        for cls in classes:
            if not any(other is not cls and issubclass(cls, other) for other in classes):  # else watched twice
                cls.__call__ = _watched_call  # type: ignore[method-assign]
                _watched.append(cls)
    except TypeError:  # a class that cannot be changed
        _stand()
        return False
    for handle in _standing:
        handle.remove()
    _standing.clear()
    _resting.extend(classes)
    return True


def _is_watched(cls: type) -> bool:
    return cls.__dict__.get("__call__") is _watched_call


def _watched_call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    call = torch.nn.Module.__call__  # looked up anew: a tracer may have replaced it
    if is_compiling():
        _stand_for_compiler()
        return call(self, *args, **kwargs)
    if _something_is_compiled():
        _torch.keep()
        return call(self, *args, **kwargs)
    serial = _enter(self)
    if not serial:
        return call(self, *args, **kwargs)
    try:
        return call(self, *args, **kwargs)
    finally:
        _leave(serial)


def _stand_for_compiler() -> None:
    _torch.keep()


_stand_for_compiler._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _on_new_part(module: torch.nn.Module, name: str, part: Any) -> None:
    if not _standing and not is_compiling():
        _torch.stand()


def _on_new_parameter(module: torch.nn.Module, name: str, parameter: Any) -> None:
    if not _standing and not is_compiling() and not _torch.known(module):
        _torch.stand()


# ---- what tdump/_api.py calls ----


_VALUE, _GRADIENT = 1, 2  # TapHalf
_BOTH = _VALUE | _GRADIENT
HALVES = dict(zip(_api.PHASES, (_VALUE, _GRADIENT, _BOTH), strict=True))
_OF_OPEN_MODULE, _VALUE_OF_MODULE, _GRADIENT_OF_MODULE = range(3)  # TapPlace


def tap(value: Any, name: str, tags: tuple[str, ...], phase: str, ranks: Any, full: bool) -> None:
    if is_compiling():
        if _tracing_taps() and callable(value):
            _trace_lazy_tap()
        else:
            _trace_tap()
    elif phase == "both" and ranks is None and not full and not callable(value):
        _torch.tap(value, name, tags)
    else:
        _tap(value, name, tags, phase, ranks, full)


def _tap(value: Any, name: str, tags: tuple[str, ...], phase: str, ranks: Any, full: bool) -> None:
    try:
        half = HALVES.get(phase)
        if half is None:
            _torch.note(f"tdump.tap({name!r}): phase {phase!r} is none of {', '.join(HALVES)}; both are taken")
            half = _BOTH
        lazy = callable(value) and not isinstance(value, (type, torch.nn.Module))
        if lazy and full:  # what it gives is there in some steps only, and all ranks would have to put it together
            _torch.note(f"tdump.tap({name!r}): full of a function; not recorded")
            return
        if full and half != _GRADIENT:
            value, half = _whole(value), _VALUE
        if not _ranks.includes(_ranks.as_text(ranks)):
            return
        if lazy:
            if not _torch.armed():
                return
            with torch.no_grad():
                value = value()
        _torch.tap(value, name, tags, half, _OF_OPEN_MODULE)
    except Exception as error:
        _torch.note(f"tdump.tap({name!r}): {type(error).__name__}: {error}")


def record(value: torch.Tensor, name: str, phase: str) -> None:
    """A tap that is below no module, so that it has the same name wherever it is called from."""
    _torch.tap(value, name, (), _VALUE, _VALUE_OF_MODULE if phase == "forward" else _GRADIENT_OF_MODULE)


def _whole(value: Any) -> Any:
    """Of DTensors all of it: their ranks communicate."""
    if hasattr(value, "full_tensor"):
        with torch.no_grad():
            return value.full_tensor()
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    return type(value)(map(_whole, value)) if type(value) in (tuple, list) else value


def step(number: Any) -> None:
    if is_compiling():
        return
    try:
        _torch.boundary("step", 0, "", -1 if number is None else int(number))
    except Exception as error:
        _torch.note(f"tdump.step({type(number).__name__}): {error}")


def watch(module: Any, name: str | None) -> None:
    if is_compiling():
        return
    try:
        _naming.watch(module, name)
    except Exception as error:
        _torch.note(f"tdump.watch({type(module).__name__}): {error}")


def add_summary(asker: Any, function: Any) -> None:
    if is_compiling():
        return
    if callable(function):
        _log.add(asker, function)
    else:
        _torch.note(f"tdump.log: stat is no function but {type(function).__name__}; values are kept")


def remove_summary(asker: Any) -> None:
    if not is_compiling():
        _log.remove(asker)


# ---- optimizers: numbered in order of construction, the oldest that lives is number 0 ----

_optimizers: weakref.WeakKeyDictionary[torch.optim.Optimizer, int] = weakref.WeakKeyDictionary()
_built = 0


def _on_optimizer(optimizer: torch.optim.Optimizer) -> None:
    global _built
    _optimizers[optimizer] = _built
    _built += 1
    _torch.boundary("optimizer_created", _number_of(optimizer), type(optimizer).__name__)


def _number_of(optimizer: torch.optim.Optimizer) -> int:
    """The steps count by number 0: when a job drops its first optimizer and builds another, that takes its place."""
    number = _optimizers[optimizer]
    return 0 if number == min(_optimizers.values()) else number


def _after_step(optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if is_compiling():
        return
    try:
        if any(cls.__call__ is not _watched_call for cls in _resting):  # nothing else tells
            _torch.stand()
        if optimizer not in _optimizers:  # copied or unpickled
            _on_optimizer(optimizer)
        _torch.optimizer_state(optimizer)
        _torch.boundary("optimizer_step", _number_of(optimizer), type(optimizer).__name__)
    except Exception as error:
        _torch.note(f"the step of an optimizer was not counted: {type(error).__name__}: {error}")


def _watch_optimizers() -> None:
    torch_optimizer.register_optimizer_step_post_hook(_after_step)
    # torch has no hook for the construction of an optimizer, which `steps.boundary: auto` needs to know before its
    # first step; __init__ is replaced by a function that calls it and then counts.
    original = torch.optim.Optimizer.__init__

    @functools.wraps(original)
    def counting_init(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        with contextlib.suppress(Exception):
            _on_optimizer(self)

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
