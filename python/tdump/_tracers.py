"""Places where torch acts on the mere presence of module hooks. Those of tdump are empty under a tracer, so they are
made not to count there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch.nn.modules import module as torch_module

_ours: tuple[Callable[..., Any], ...] = ()


def has_global_hooks_of_the_job() -> bool:
    hooks = (
        torch_module._global_backward_pre_hooks,
        torch_module._global_backward_hooks,
        torch_module._global_forward_pre_hooks,
        torch_module._global_forward_hooks,
    )
    return any(hook not in _ours for kind in hooks for hook in kind.values())


def stay_out_of_the_warning(*hooks: Callable[..., Any]) -> None:
    """A compiled module warns on every call when there are global hooks, by asking the function replaced here."""
    global _ours
    _ours = hooks
    if hasattr(torch_module, "_has_any_global_hook"):
        torch_module._has_any_global_hook = has_global_hooks_of_the_job


def never_compile_alone(*codes: CodeType) -> None:
    """Dynamo looks at every function that is called where a compiled one runs. This code is traced within others
    only."""
    try:
        from torch._C._dynamo.eval_frame import (  # type: ignore[attr-defined]
            _FrameAction,
            _FrameExecStrategy,
            set_code_exec_strategy,
        )

        for code in codes:
            set_code_exec_strategy(code, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))
    except Exception:  # another torch: what is said of compiled modules stays right
        pass


def stay_out_of_strict_export() -> None:
    """Strict export traces ``forward`` of its root, but ``__call__`` where there are hooks, which ends in an error for
    the root it makes itself. Called when such a root is built; by then Dynamo is imported."""
    frame = sys.modules.get("torch._dynamo.convert_frame")
    original = getattr(frame, "get_traced_fn", None)
    if original is None or getattr(original, "_tdump", False):
        return

    def get_traced_fn(callable_: Any) -> Any:
        return original(callable_.forward if _only_ours_stand_on(callable_) else callable_)

    get_traced_fn._tdump = True  # type: ignore[attr-defined]
    for module in (frame, sys.modules.get("torch._dynamo.functional_export")):
        if getattr(module, "get_traced_fn", None) is original:
            module.get_traced_fn = get_traced_fn  # type: ignore[union-attr]


def _only_ours_stand_on(module: Any) -> bool:
    """The condition under which torch itself takes ``forward``, if tdump's hooks were not there."""
    if not isinstance(module, torch.nn.Module) or has_global_hooks_of_the_job():
        return False
    own = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
    return not any(getattr(module, name, None) for name in own) and type(module).__call__ is torch.nn.Module.__call__
