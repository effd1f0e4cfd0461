"""``tdump.print`` and ``tdump.inspector``: to look at tensors and gradients while a program runs, in eager code and in
what ``torch.compile`` makes. They need torch, and nothing of tdump's runtime.

Both call one operator, in eager code too:

    tdump::inspect(Tensor[] values, Tensor[] scalars, SymInt[] integers, str who, str text, str ranks, str phase,
                   bool full) -> ()

Compilers see an operator with an effect that is ordered, so it stays where it is; it returns nothing, so nothing
depends on it. What is done with the values happens when it runs, in no graph.

``who`` is the number of an inspector, or ``print``. ``phase`` is what the caller asked for (forward, backward, both, or
arriving: of both the gradients, for which alone there is a callback); the autograd kernel, which runs in eager code and
while AOTAutograd traces forward and backward as one, puts hooks on the values and hands on ``forward``. The hooks call
the operator with ``gradient`` and the positions of the values whose gradients these are: in eager code that shows them,
in a trace it lands in the graph of the backward.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from tdump import _api, _ranks, _template

_PRINT, _ARRIVING = "print", "arriving"

Callback = Callable[..., Any]


def print(
    template: str,
    *values: Any,
    phase: str = "forward",
    ranks: _ranks.Ranks = None,
    full: bool = False,
    **named: Any,
) -> None:
    """Prints ``template.format(*values, **named)``, without a graph break in what ``torch.compile`` makes.

    Values: tensors, numbers (symbolic ones too), str, shapes, and tuples, lists and dicts of such. With
    ``phase="backward"`` gradients stand in place of the tensors, printed once all have arrived; ``"both"`` prints
    twice. ``ranks``: a number, a set of numbers, or all. Of a DTensor the local part is shown; with ``full=True`` the
    whole, which every rank of its mesh has to ask for, whatever ``ranks`` says.
    """
    _safely(_print, template, template, values, named, ranks, phase, full)


def _print(
    template: str, values: tuple[Any, ...], named: dict[str, Any], ranks: _ranks.Ranks, phase: str, full: bool
) -> None:
    parts = _template.Parts()
    text = "".join([_template.encode(part, parts) for part in (template, values, named)])
    _inspect(parts, _PRINT, text, ranks, phase, full)


def _safely(action: Callable[..., None], topic: Any, *args: Any) -> None:
    """What a program gives to be shown never fails it, and what is computed to show it is none of its operators. In a
    compiler's trace, where neither can be had, the action alone."""
    if torch.compiler.is_compiling():
        action(*args)
        return
    try:
        with _unrecorded():
            action(*args)
    except Exception as error:
        _tell_once(topic, error)


class inspector:  # noqa: N801  (called as a function is)
    """Shows tensors to ``fwd`` and their gradients to ``bwd``, outside of any graph, in eager and compiled code alike.

        look = tdump.inspector(fwd=lambda x: f"norm {x.norm():.3f}", bwd=lambda g: f"grad norm {g.norm():.3f}")
        h = look(h, tag="after attention", ranks=0)

    A callback takes the detached tensor, or the tensor and the tag. What it returns is printed behind rank, tag and
    direction, None is not. It must not change the tensor. If it raises, that is told once and the job goes on. Without
    any callback both print dtype, shape and norm.

    Call it with tensors, or tuples, lists and dicts of tensors; it gives back what it was given. ``phase``: "forward",
    "backward" or "both". A gradient is shown when it arrives; of a leaf (a parameter) the next one. With
    ``phase="backward"`` within a backward (that of a custom autograd function), where the tensor itself is a gradient,
    it is shown at once; not so under ``create_graph=True``, where that has a gradient to wait for. ``ranks`` and
    ``full`` as for ``tdump.print``.
    """

    def __init__(self, fwd: Callback | None = None, bwd: Callback | None = None) -> None:
        if fwd is None and bwd is None:
            fwd = bwd = describe
        self._callbacks = {"fwd": _with_tag(fwd), "bwd": _with_tag(bwd)}
        self._phases = tuple(name for name, given in (("forward", fwd), ("backward", bwd)) if given is not None)
        self._number = str(next(_numbers))
        _inspectors[self._number] = self

    def __call__(
        self,
        value: Any,
        *more: Any,
        tag: str = "",
        ranks: _ranks.Ranks = None,
        phase: str = "both",
        full: bool = False,
    ) -> Any:
        _safely(self._look, self._number, (value, *more), tag, ranks, phase, full)
        return (value, *more) if more else value

    def _look(self, values: tuple[Any, ...], tag: str, ranks: _ranks.Ranks, phase: str, full: bool) -> None:
        parts = _template.Parts()
        _add_tensors(values, parts.tensors)
        wanted = self._narrowed(phase)
        if parts.tensors and wanted:
            _inspect(parts, self._number, tag, ranks, wanted, full)

    def _narrowed(self, phase: str) -> str:
        """Without what there is no callback for."""
        if len(self._phases) == 2 or phase not in _api.PHASES or phase in self._phases:
            return phase
        if phase == "both":
            return "forward" if "forward" in self._phases else _ARRIVING
        return ""

    def __deepcopy__(self, memo: Any) -> inspector:
        return self  # that of a copied model has the same callbacks

    def close(self) -> None:
        """Shows nothing any more, in code that is compiled already neither."""
        _inspectors.pop(self._number, None)


_numbers = itertools.count()
_inspectors: weakref.WeakValueDictionary[str, inspector] = weakref.WeakValueDictionary()


def describe(tensor: torch.Tensor) -> str:
    name = str(tensor.dtype).removeprefix("torch.")
    wide = torch.complex128 if tensor.is_complex() else torch.float64
    return f"{name}{list(tensor.shape)} norm {tensor.to(wide).norm():.6g}"


def _add_tensors(value: Any, found: list[torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, dict):
        for item in value.values():
            _add_tensors(item, found)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _add_tensors(item, found)


def _inspect(parts: _template.Parts, who: str, text: str, ranks: _ranks.Ranks, phase: str, full: bool) -> None:
    if phase not in (*_api.PHASES, _ARRIVING):
        _tell_once(who, f"phase {phase!r} is none of {', '.join(_api.PHASES)}")
        return
    _know_dtensor()
    if not parts.tensors and not parts.scalars:  # an operator without tensors cannot be compiled everywhere
        parts.scalars.append(torch.scalar_tensor(0.0, device="cpu"))
    torch.ops.tdump.inspect.default(
        parts.tensors, parts.scalars, parts.integers, who, text, _ranks.as_text(ranks), phase, full
    )


def _with_tag(callback: Callback | None) -> Callback | None:
    """``callback(tensor, tag)``, whichever it takes."""
    if callback is None:
        return None
    try:
        inspect.signature(callback).bind(None, None)
        needs_tag = _required(callback) == 2
    except (TypeError, ValueError):
        needs_tag = False
    return callback if needs_tag else lambda tensor, _: callback(tensor)


def _required(callback: Callback) -> int:
    parameters = inspect.signature(callback).parameters.values()
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


# ---- the operator ----


def _run(
    values: list[torch.Tensor],
    scalars: list[torch.Tensor],
    integers: list[int],
    who: str,
    text: str,
    ranks: str,
    phase: str,
    full: bool,
) -> None:
    direction, *came = phase.split()
    if direction in ("backward", _ARRIVING):
        return
    backward = direction == "gradient"
    at = map(int, came) if backward else range(len(values))
    try:
        if not _ranks.includes(ranks):
            return
        with torch.no_grad(), _unrecorded():
            shown = {position: value.detach() for position, value in zip(at, values, strict=True)}
            if who == _PRINT:
                _show(_filled(text, shown, scalars, integers))
            elif who in _inspectors:
                _call(_inspectors[who]._callbacks["bwd" if backward else "fwd"], shown, text, backward)
    except Exception as error:
        _tell_once(_template.of_print(text) if who == _PRINT else who, error)


def _filled(text: str, tensors: dict[int, torch.Tensor], scalars: list[torch.Tensor], integers: list[int]) -> str:
    template, values, named = _template.decode(text, tensors, scalars, integers)
    return template.format(*values, **named)


def _call(callback: Callback, tensors: dict[int, torch.Tensor], tag: str, backward: bool) -> None:
    for tensor in tensors.values():
        said = callback(tensor, tag)
        if said is not None:
            label = f"[{tag}]" if tag else ""
            _show(f"{label}[{'bwd' if backward else 'fwd'}] {said}")


def _show(line: str) -> None:
    if _ranks.world() > 1:
        line = f"[rank {_ranks.rank()}]{'' if line.startswith('[') else ' '}{line}"
    builtins.print(line + "\n", end="", flush=True)  # in one piece: ranks share the output


_told: set[Any] = set()
_MOST_TOLD = 1000  # of templates that are made anew each time


def _tell_once(topic: Any, why: Exception | str) -> None:
    with contextlib.suppress(Exception):
        if topic in _told or len(_told) == _MOST_TOLD:
            return
        _told.add(topic)
        if isinstance(why, Exception):
            why = f"{type(why).__name__}: {why}"
        sys.stderr.write(f"tdump: a tdump.print or a callback of tdump.inspector is left out, said once: {why}\n")


_tell_once._dynamo_marked_constant = True  # type: ignore[attr-defined]


@contextlib.contextmanager
def _unrecorded() -> Iterator[None]:
    """What a callback computes is none of the job's operators."""
    depth = getattr(_thread, "unrecorded", 0)
    _thread.unrecorded = depth + 1
    torch._C._autograd._enable_record_function(False)
    try:
        yield
    finally:
        _thread.unrecorded = depth
        torch._C._autograd._enable_record_function(depth == 0)


_thread = threading.local()


def _with_hooks(keys: Any, values: list[torch.Tensor], *rest: Any) -> None:
    scalars, integers, who, text, ranks, phase, full = rest
    if phase in ("backward", "both", _ARRIVING):
        grad = torch.is_grad_enabled()
        _watch({n: value for n, value in enumerate(values) if value.requires_grad and grad}, rest)
        # A checkpoint that computes its forward again is within a backward too, but with gradients on.
        is_gradient = phase == "backward" and not grad and torch._C._current_graph_task_id() != -1
        if phase != "both" and not is_gradient:
            return
        phase = "gradient " + " ".join(map(str, range(len(values)))) if is_gradient else "forward"
    with torch._C._AutoDispatchBelowAutograd():
        torch.ops.tdump.inspect.default.redispatch(
            keys & torch._C._after_autograd_keyset, values, scalars, integers, who, text, ranks, phase, full
        )


def _watch(tensors: dict[int, torch.Tensor], rest: tuple[Any, ...]) -> None:
    scalars, integers, who, text, ranks, _, full = rest
    alive = _inspectors.get(who)  # made for this call alone, it has to last until the gradient comes
    together = len(tensors) if who == _PRINT else 1
    came: dict[int, torch.Tensor] = {}

    def hook(position: int, gradient: torch.Tensor | None) -> None:
        if position in leaves:
            leaves.pop(position)()
        if gradient is None or (who != _PRINT and alive is None):
            return
        came[position] = gradient
        if len(came) == together:
            gradients = dict(sorted(came.items()))
            came.clear()
            phase = " ".join(["gradient", *map(str, gradients)])
            with _unrecorded():
                torch.ops.tdump.inspect.default(
                    list(gradients.values()), scalars, integers, who, text, ranks, phase, full
                )

    leaves: dict[int, Callable[[], None]] = {}
    for position, tensor in tensors.items():
        handle = tensor.register_hook(functools.partial(hook, position))
        if tensor.grad_fn is None:
            leaves[position] = _of_leaf(tensor, (who, text, position), handle)


def _of_leaf(leaf: torch.Tensor, place: tuple[str, str, int], handle: Any) -> Callable[[], None]:
    """What takes the hook off again: it would last as long as the leaf does. One whose gradient never came goes when
    the next is put in its place; not in a trace, where each input is a leaf."""
    traced = torch._C._len_torch_dispatch_stack() > 0
    handles = {} if traced else _leaf_handles.setdefault(leaf, {})
    if place in handles:
        handles[place].remove()
    handles[place] = handle

    def take_off() -> None:
        handle.remove()
        if handles.get(place) is handle:
            del handles[place]

    return take_off


_leaf_handles = WeakTensorKeyDictionary()


def _of_vmap(info: Any, in_dims: Any, *args: Any) -> tuple[None, None]:
    """Under vmap all of a batch is shown at once."""
    torch.ops.tdump.inspect.default(*args)
    return None, None


def _of_dtensor(cls: type, op: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> None:
    *before, full = args
    values, *rest = before
    op([_part(value, full) for value in values], *rest, full)


def _part(value: torch.Tensor, full: bool) -> torch.Tensor:
    if not hasattr(value, "full_tensor"):
        return value
    return value.full_tensor() if full else value._local_tensor


def _know_dtensor() -> None:
    """Not before the job uses them: to import DTensor takes a while."""
    global _knows_dtensor
    dtensor = sys.modules.get("torch.distributed.tensor")
    if not _knows_dtensor and hasattr(dtensor, "DTensor"):
        _knows_dtensor = True
        torch.library.register_torch_dispatch("tdump::inspect", dtensor.DTensor, _of_dtensor, lib=_library)


_know_dtensor._dynamo_marked_constant = True  # type: ignore[attr-defined]
_knows_dtensor = False


def _define() -> torch.library.Library:
    library = torch.library.Library("tdump", "FRAGMENT")
    tags = [torch.Tag.flexible_layout]
    if hasattr(torch.Tag, "cudagraph_unsafe"):
        tags.append(torch.Tag.cudagraph_unsafe)
    schema = "Tensor[] values, Tensor[] scalars, SymInt[] integers, str who, str text, str ranks, str phase, bool full"
    library.define(f"inspect({schema}) -> ()", tags=tuple(tags))
    library.impl("inspect", _run, "CompositeExplicitAutograd")
    library.impl("inspect", _with_hooks, "Autograd", with_keyset=True)
    torch.library.register_fake("tdump::inspect", lambda *_: None, lib=library)
    torch.library.register_vmap("tdump::inspect", _of_vmap, lib=library)
    torch.library._register_effectful_op("tdump::inspect", torch._library.effects.EffectType.ORDERED, lib=library)
    return library


_library = _define()
