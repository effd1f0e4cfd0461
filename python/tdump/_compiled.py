"""Modules and taps inside what ``torch.compile`` makes: while Dynamo traces the hooks of a module call, or a tap,
operators that hand its values over are put into the graph (collectors/torch/traced_calls.h).

Rules of this file. Nothing of it is traced: Dynamo runs it as a function whose result is a constant, so it adds no
guard and no graph break. It asks Dynamo for the variables of the hook that is being traced and adds nodes to the graph
beside them; what the job computes stays as it is. Whatever goes wrong becomes a line in the coverage, and the graph
stays as without tdump. Dynamo is never imported from here before it is there.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
import weakref
from types import CodeType
from typing import Any

import torch

from tdump import _exported, _naming, _ranks, _torch, _traced_values, _tracers
from tdump._traced_values import NotHere

_OUTPUTS, _OUTPUT_GRADIENTS, _INPUTS, _INPUT_GRADIENTS = 1, 2, 4, 8  # bits of _torch.traced_wants()
_WHOLE, _BEGIN, _END = range(3)  # TracedSite::Part
# Compilers known to keep an operator that has an effect.
_BACKENDS = ("eager", "eager_noexcept", "aot_eager", "aot_eager_decomp_partition", "inductor")
_TRACED = "torch.compile or torch.export: {} in this region are traced; not captured"
_OFF = "torch.compile: {} in this region are traced; not captured (compile.taps: on captures them, as an experiment)"

_codes: tuple[CodeType, ...] = ()
_sites: dict[Any, int] = {}
_defined = False


def keep_out(*hooks: Any) -> None:
    """The hooks of a compiled model's root run in eager code. Dynamo, which looks at every function called then, would
    compile them, and their ``is_compiling()`` be True for good."""
    global _codes
    _codes = tuple(hook.__code__ for hook in hooks)
    _tracers.never_compile_alone(*_codes)


def before() -> None:
    """In the pre-hook of a module that is being traced."""
    _trace(_Graph.before, exported=_exported_before)


def after() -> None:
    """In its hook."""
    _trace(_Graph.after, exported=_exported_after)


def tap() -> None:
    """In a tap."""
    _trace(_Graph.tap, "taps")


def lazy_tap() -> None:
    """In a tap of a function."""
    _trace(_Graph.lazy_tap, "taps")


def tracing_taps() -> bool:
    """Whether taps are put into graphs."""
    return _torch.traced_taps() and _torch.traced_start()


for _traced in (before, after, tap, lazy_tap, tracing_taps):
    _traced._dynamo_marked_constant = True  # type: ignore[attr-defined]


def is_handing_over(graph: torch.fx.GraphModule) -> bool:
    """Whether a graph that a compiler runs as a module has our operators in it."""
    return _defined and any("tdump.traced_" in str(node.target) or _is_ours(node) for node in graph.graph.nodes)


def _is_ours(node: torch.fx.Node) -> bool:
    return any("tdump.traced_" in str(argument) for argument in node.args[1:2])  # with_effects(token, op, ...)


def _exported_before(said: dict[str, Any]) -> None:
    _exported.before(said["module"], said["args"])


def _exported_after(said: dict[str, Any]) -> None:
    _exported.after(said["module"], *said["rest"])


def _trace(step: Any, what: str = "modules", exported: Any = None) -> None:
    try:
        tx = _translator()
        if tx is None and exported is not None and torch.compiler.is_exporting() and _torch.traced_start():
            exported(sys._getframe(2).f_locals)
        elif tx is None or tx.output.export:
            _torch.note(_TRACED.format(what))
        elif _define():
            step(_Graph.of(tx), tx)
        else:  # the notes say nothing in a process that records nothing
            _torch.note(_OFF.format(what))
            if what == "modules":
                _name_outermost(tx)
    except NotHere as reason:
        _torch.note(f"torch.compile: {reason}; not captured")
    except Exception as error:
        if isinstance(error, _starts_again()):
            raise
        first = (str(error).splitlines() or [""])[0]
        _torch.note(f"torch.compile: a module cannot be followed ({type(error).__name__}: {first}); not captured")


def _starts_again() -> tuple[type[Exception], ...]:
    """What Dynamo raises, whoever asked it for something, to trace the region once more or not at all."""
    from torch._dynamo import exc

    return (exc.RestartAnalysis, exc.SkipFrame)


def _translator() -> Any:
    """Dynamo's translator of the hook that is being traced."""
    frame = sys._getframe(2)
    for _ in range(16):
        frame = frame.f_back  # type: ignore[assignment]
        if frame is None:
            return None
        tx = frame.f_locals.get("tx")
        if getattr(tx, "f_code", None) in _codes:
            return tx
    return None


def _define() -> bool:
    """Whether values are to be handed over; defines the operators for the compilers."""
    global _defined
    if not _torch.traced_start():
        return False
    if not _defined:
        library = torch.library
        ordered = torch._library.effects.EffectType.ORDERED
        nothing = lambda *_: None  # noqa: E731
        for name in ("traced_root", "traced_call", "traced_grad"):
            library.register_fake(f"tdump::{name}", nothing)
        library.register_fake("tdump::traced_ticket", lambda _: torch.empty((), dtype=torch.int64, device="cpu"))
        for name in ("traced_root", "traced_call", "traced_grad", "traced_ticket"):
            library._register_effectful_op(f"tdump::{name}", ordered)
        _torch.traced_namer(_naming.resolve_class)
        _defined = True
    return True


@dataclasses.dataclass
class _Root:
    """A module whose call, the outermost one, begins in the graph."""

    module: torch.nn.Module
    source: Any  # where Dynamo found it; None: nowhere, it was made in the region
    site: int
    begin: Any  # the node; None where nothing below the module is wanted
    witness: list[Any]
    twins: list[torch.nn.Module]
    paths: dict[int, str]
    calls: int = 0  # of it that have begun and not ended


class _Graph:
    """What is known of one graph while it is being made."""

    @staticmethod
    def of(tx: Any) -> _Graph:
        graph = getattr(tx.output, "_tdump", None)
        if graph is None:
            graph = tx.output._tdump = _Graph(tx)
        return graph

    def __init__(self, tx: Any) -> None:
        enclosing = _torch.traced_open()
        self.paths: dict[int, str] = {}
        self.enclosing: list[weakref.ref[torch.nn.Module]] = []
        self.names: set[str] = set()  # of locals of the compiled frame that are the enclosing module
        if enclosing is not None:
            _naming.resolve_class(type(enclosing))
            self.paths = _paths(enclosing)
            self.enclosing = [weakref.ref(module) for module in _torch.traced_twins(enclosing)]
            self.names = {name for name, value in tx.output.root_tx.f_locals.items() if value is enclosing}
        self.roots: list[_Root] = []
        self.begun: list[tuple[int, int]] = []  # (id of the module, slot) of calls whose begin was handed over
        self.ticket: Any = None
        self.slots = 0

    # ---- the two hooks ----

    def before(self, tx: Any) -> None:
        module = _traced_values.real(tx.symbolic_locals["module"])
        if _naming.wrapped_attribute(module.value) is not None:
            return
        if self.path_of(module) is None:
            self.begin_root(tx, module)
        root = self.innermost_root()
        if root is not None and root.module is module.value:
            root.calls += 1
        wanted = self.wanted(module)
        if wanted & (_INPUTS | _INPUT_GRADIENTS):
            self.check(tx)
            values = list(_traced_values.values(tx, tx.symbolic_locals["args"], ""))
            slot = self.hand_over(
                tx, module, _BEGIN, wanted & _INPUT_GRADIENTS, [(True, a, False, v) for a, v in values]
            )
            self.begun.append((id(module.value), slot))

    def after(self, tx: Any) -> None:
        module = _traced_values.real(tx.symbolic_locals["module"])
        if _naming.wrapped_attribute(module.value) is not None:
            return
        try:
            self.hand_outputs_over(tx, module)
        finally:
            self.end_root(tx, module)

    def tap(self, tx: Any) -> None:
        said = tx.symbolic_locals
        name = _traced_values.text(_traced_values.constant(said["name"]))
        tags = tuple(map(_traced_values.text, _traced_values.constant(said["tags"])))
        phase, ranks, full = (_traced_values.constant(said[word]) for word in ("phase", "ranks", "full"))
        if full:
            raise NotHere("a tap of a whole DTensor")
        if not _ranks.includes(_ranks.as_text(ranks)):
            return
        owner, root = _owner(tx), self.innermost_root()
        path = self.path_of(owner) if owner is not None else None if root is None else ""
        if (owner is not None and path is None) or (root is not None and root.begin is None):
            raise NotHere("a tap in a module of which nothing can be told")
        keeps = phase != "backward"
        wanted = self.wanted_of_tap(path, name)
        wanted &= (_OUTPUTS if keeps else 0) | (_OUTPUT_GRADIENTS if phase != "forward" else 0)
        if not keeps and not wanted:
            _torch.note(f"the gradient of the tap '{name}' is not recorded: no rule asks for its grad_output")
        if wanted:
            self.check(tx)
            values = [(False, a, False, v) for a, v in _traced_values.values(tx, tx.symbolic_locals["value"], "")]
            site = (path, root is not None, name, tags)
            self.emit_values(tx, site, _WHOLE, wanted & _OUTPUT_GRADIENTS, values, self.new_slot(), keeps)

    def lazy_tap(self, tx: Any) -> None:
        """The function would be part of the job's graph: run in every step, and free to fail it."""
        name = _traced_values.text(_traced_values.constant(tx.symbolic_locals["name"]))
        raise NotHere(f"the tap '{name}' of a function")

    def wanted_of_tap(self, path: str | None, name: str) -> int:
        """Of any module that runs this code; without a path in whichever is open then."""
        bits = _torch.traced_wants_tap(None, name) if path is None else 0
        for twin in self.twins():
            part = None if twin is None else _part(twin, path or "")
            bits |= 0 if part is None else _torch.traced_wants_tap(part, name)
        return bits

    def hand_outputs_over(self, tx: Any, module: Any) -> None:
        wanted = self.wanted(module)
        if not wanted:
            return
        slot = None
        while self.begun and slot is None:  # those above were left by an exception
            begun, slot = self.begun.pop()
            slot = slot if begun == id(module.value) else None
        gradients = wanted & (_INPUT_GRADIENTS | _OUTPUT_GRADIENTS)
        try:
            self.check(tx)
            values = self.values_after(tx, wanted)
        except NotHere:
            if slot is not None:
                self.hand_over(tx, module, _END, 0, [], slot)
            raise
        self.hand_over(tx, module, _WHOLE if slot is None else _END, gradients, values, slot)

    def values_after(self, tx: Any, wanted: int) -> list[tuple[bool, str, bool, Any]]:
        kwargs, output = tx.symbolic_locals["rest"].items
        values = []
        if wanted & (_INPUTS | _INPUT_GRADIENTS):  # seen after the call, as in eager code
            values += [(True, a, True, v) for a, v in _traced_values.values(tx, kwargs, "kwargs")]
        return values + [(False, a, False, v) for a, v in _traced_values.values(tx, output, "")]

    # ---- where a module is ----

    def innermost_root(self) -> _Root | None:
        while self.roots and self.roots[-1].begin is not None and self.roots[-1].begin._erased:
            self.roots.pop()  # Dynamo took the nodes back
        return self.roots[-1] if self.roots else None

    def path_of(self, module: Any) -> str | None:
        """From the innermost root, or the enclosing module, if the code finds the module by way of that: then it finds
        the same part of another one when it runs for that."""
        root = self.innermost_root()
        path = (self.paths if root is None else root.paths).get(id(module.value))
        if path is None or module.source is None:
            return path
        for place in _traced_values.bases(module.source):
            if place == root.source if root is not None else getattr(place, "local_name", None) in self.names:
                return path
        return None

    def twins(self) -> list[torch.nn.Module | None]:
        """Modules that may run this code where the innermost root, or the enclosing module, does now."""
        root = self.innermost_root()
        return [twin() for twin in self.enclosing] if root is None else list(root.twins)

    def wanted(self, module: Any) -> int:
        """What is wanted of any module that runs this code, at this place."""
        path, root = self.path_of(module), self.innermost_root()
        if path is None or (root is not None and root.begin is None):
            return 0
        bits = 0
        for twin in self.twins():
            part = None if twin is None else _part(twin, path)
            bits |= 0 if part is None else _torch.traced_wants(part)
        return bits

    def begin_root(self, tx: Any, variable: Any) -> None:
        module = variable.value
        if not _torch.known(module):
            _naming.resolve(module)
        _naming.resolve_class(type(module))
        paths = _paths(module)
        root = _Root(module, variable.source, -1, None, [], _torch.traced_twins(module), paths)
        self.roots.append(root)
        parts = (_part(twin, path) for twin in root.twins for path in paths.values())
        if not any(part is not None and _torch.traced_wants(part) for part in parts) and not _torch.traced_taps():
            return
        self.check(tx)
        name, root.witness = _witness(tx, variable)
        root.site = _torch.traced_root(module, name)
        grad = torch.is_grad_enabled()  # Dynamo keeps it as the job has it here
        root.begin = _emit(tx, torch.ops.tdump.traced_root.default, (root.witness, root.site, True, grad)).node

    def end_root(self, tx: Any, module: Any) -> None:
        root = self.innermost_root()
        if root is None or root.module is not module.value:
            return
        root.calls -= 1
        if root.calls > 0:  # it has called itself
            return
        self.roots.pop()
        if root.begin is not None:
            grad = torch.is_grad_enabled()
            _emit(tx, torch.ops.tdump.traced_root.default, (root.witness, root.site, False, grad))

    # ---- nodes ----

    def check(self, tx: Any) -> None:
        try:
            _check_backend(tx)
        except NotHere:  # nothing of the region is captured
            if "module" in tx.symbolic_locals:
                _name_outermost(tx)
            raise
        if torch._C._functorch.peek_interpreter_stack() is not None:
            raise NotHere("a transform of torch.func inside the compiled region")
        tracer = tx.output.current_tracer
        while tracer.parent is not None:
            name = getattr(tracer.source_target, "_name", str(tracer.source_target))
            if name != "tag_activation_checkpoint":
                raise NotHere(f"modules inside {name}")
            tracer = tracer.parent

    def hand_over(
        self,
        tx: Any,
        module: Any,
        part: int,
        gradients: int,
        values: list[tuple[bool, str, bool, Any]],
        slot: int | None = None,
    ) -> int:
        if slot is None:
            slot = self.new_slot()
        site = (self.path_of(module), self.innermost_root() is not None, None, ())
        self.emit_values(tx, site, part, gradients, values, slot)
        return slot

    def new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def emit_values(
        self,
        tx: Any,
        site: tuple[str | None, bool, str | None, tuple[str, ...]],
        part: int,
        gradients: int,
        values: list[tuple[bool, str, bool, Any]],
        slot: int,
        keeps: bool = True,
    ) -> None:
        """``site``: the path of the module, whether it is below a root; the name and tags of a tap."""
        named = [(is_input, arg, late) for is_input, arg, late, _ in values]
        key = (*site, part, keeps, gradients != 0, tuple(named))
        if key not in _sites:
            _sites[key] = _torch.traced_site(*key[:-1], named)
        ticket = self.ticket_of(tx) if gradients else None
        proxies = [value.as_proxy() for *_, value in values]
        _emit(tx, torch.ops.tdump.traced_call.default, (proxies, ticket, _sites[key], slot))

    def ticket_of(self, tx: Any) -> Any:
        if self.ticket is None or self.ticket.node._erased:
            tracer = tx.output.root_tracer  # every part of the graph can have it from there
            self.ticket = tracer.create_proxy("call_function", torch.ops.tdump.traced_ticket.default, (0,), {})
            with tx.output.fake_mode:
                number = torch.empty((), dtype=torch.int64, device="cpu")
            self.ticket.node.meta["example_value"] = number
        return self.ticket


def _emit(tx: Any, op: Any, args: tuple[Any, ...]) -> Any:
    proxy = tx.output.create_proxy("call_function", op, args, {})
    proxy.node.meta["example_value"] = None
    return proxy


def _owner(tx: Any) -> Any:
    """The module that is called innermost in what is being traced; None: none is."""
    while (tx := tx.parent) is not None:
        if tx.f_code is torch.nn.Module._wrapped_call_impl.__code__:
            module = _traced_values.real(tx.symbolic_locals["self"])
            if _naming.wrapped_attribute(module.value) is None:
                return module
    return None


def _name_outermost(tx: Any) -> None:
    """In a hook: which module it is that is not looked into; of those inside it nothing more is said."""
    module, calls = _traced_values.real(tx.symbolic_locals["module"]).value, 0
    frame = tx.output.root_tx
    owner = frame.f_locals.get("self")
    if isinstance(owner, torch.nn.Module) and frame.f_code is getattr(type(owner).forward, "__code__", None):
        module = owner  # it is compiled, and its own call runs in eager code
    while (tx := tx.parent) is not None:
        calls += tx.f_code is torch.nn.Module._call_impl.__code__
    if calls == 1:
        _torch.note(f"torch.compile: {type(module).__name__} is compiled; not captured inside")


# ---- modules ----


def _paths(above: torch.nn.Module) -> dict[int, str]:
    """The keys in ``_modules``, joined by dots, of the parts of a module, by id."""
    paths: dict[int, str] = {}

    def walk(module: torch.nn.Module, path: str) -> None:
        if id(module) in paths:
            return
        paths[id(module)] = path
        for name, child in _naming.children(module):
            walk(child, f"{path}.{name}" if path else name)

    walk(above, "")
    return paths


def _part(module: torch.nn.Module, path: str) -> torch.nn.Module | None:
    part: Any = module
    for name in path.split(".") if path else ():
        part = _naming.part_of(part, name)
        if part is None:
            return None
    return part


def _witness(tx: Any, module: Any) -> tuple[str, list[Any]]:
    """A parameter or buffer of the module, by which to tell at run time which module runs this code; its name and
    value."""
    from torch._dynamo.variables import TensorVariable

    for name, tensor in itertools.chain(module.value.named_parameters(), module.value.named_buffers()):
        if type(tensor) not in (torch.nn.Parameter, torch.Tensor):
            continue
        variable = module
        for part in name.split("."):
            variable = _traced_values.attribute(tx, variable, part)
        variable = _traced_values.real(variable)
        if isinstance(variable, TensorVariable) and _traced_values.is_plain(variable):
            return name, [variable.as_proxy()]
    return "", []


# ---- compilers ----


def _check_backend(tx: Any) -> None:
    from torch._dynamo.backends.registry import lookup_backend
    from torch._dynamo.eval_frame import innermost_backend

    backend: Any = innermost_backend(tx.output.compiler_fn)
    options = getattr(backend, "config", {})
    name = getattr(backend, "compiler_name", None) if type(backend).__module__ == "torch" else None
    if name is None or name not in _BACKENDS:
        inner = innermost_backend(getattr(backend, "compiler_fn", backend))
        name = next((known for known in _BACKENDS if inner is lookup_backend(known)), None)
    if name is None:
        shown = getattr(inner, "__name__", type(inner).__name__)
        raise NotHere(f"modules in a region of the backend {shown}, which may not know operators of tdump")
    inductor = sys.modules.get("torch._inductor.config")
    graphs = options.get("triton.cudagraphs", inductor is not None and inductor.triton.cudagraphs)
    if name == "inductor" and graphs and torch.cuda.is_available():
        raise NotHere("modules in a region that is captured as a CUDA graph")
