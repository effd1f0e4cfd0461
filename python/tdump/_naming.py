"""Names of modules: the dotted path ``named_modules()`` gives, below the top-most owner of a module.

Owners are known from registration (a hook of torch), completed by walking ``_modules`` from a root when it is first
called, and, for a module without an owner (deep copies, unpickled models), by one search of what refers to it. Nothing
here keeps a module alive.

Roots. The first root has the prefix "" and its path is ``.``. Further roots that own parameters are prefixed by class
and number in order of construction: ``Critic#1``. Modules without parameters that nobody owns (a loss called by hand)
are named by class: ``CrossEntropyLoss``, and ``CrossEntropyLoss#1`` for a second one that lives at the same time.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import time
import weakref
from collections.abc import Iterator

import torch
from torch.nn import Module

from tdump import _scripted, _torch, _tracers

# Wrappers by qualified class name and the attribute that holds the wrapped module: not part of a path.
_WRAPPERS = {
    "torch.nn.parallel.distributed.DistributedDataParallel": "module",
    "torch.nn.parallel.data_parallel.DataParallel": "module",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel": "_fsdp_wrapped_module",
    "torch._dynamo.eval_frame.OptimizedModule": "_orig_mod",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.CheckpointWrapper": "_checkpoint_wrapped_module",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.OffloadWrapper": "_checkpoint_wrapped_module",
    "torch.optim.swa_utils.AveragedModel": "module",
}
_MAX_ALIASES = 64
_SEARCH_SECONDS = 2.0  # for all searches of referrers together: each walks the whole heap


def qualified(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def wrapped_attribute(module: Module) -> str | None:
    """The name of the only part of a wrapper, None for any other module."""
    for cls in type(module).__mro__:
        attribute = _WRAPPERS.get(qualified(cls))
        if attribute is not None:
            return attribute
    return None


def is_compiled_graph(module: Module) -> bool:
    """A graph that a compiler made and calls: no module of its own, no parameters. Its values belong to a compiled
    region. (A model that torch.fx traced keeps its modules, an exported program its parameters.)"""
    return all(
        any(qualified(cls) == "torch.fx.graph_module.GraphModule" for cls in type(part).__mro__)
        and not part.__dict__.get("_parameters")
        for part in _walk_once(module)
    )


def class_of(module: Module) -> type:
    """The class of a module; FSDP2 puts one of its own in front of it."""
    cls = type(module)
    if cls.__bases__ and cls.__bases__[0].__name__ == "FSDPModule" and len(cls.__bases__) > 1:
        return cls.__bases__[1]
    return cls


def class_name(module: Module) -> str:
    return _scripted.class_name(module) if _scripted.is_script(module) else qualified(class_of(module))


def children(module: Module) -> list[tuple[str, Module]]:
    parts = _scripted.members(module).get("_modules")
    return [(name, child) for name, child in parts.items() if isinstance(child, Module)] if parts else []


def part_of(module: Module, name: str) -> Module | None:
    parts = _scripted.members(module).get("_modules")
    return parts[name] if parts and name in parts else None


# ---- what registration told ----


class _Known:
    """What registration told about one module: its owners, and when it was first seen."""

    __slots__ = ("module", "number", "owners", "owns")

    def __init__(self, module: Module, number: int) -> None:
        self.module = weakref.ref(module, _forgetter(id(module)))
        self.number = number
        self.owners: list[tuple[weakref.ref[Module], str]] = []
        self.owns = False  # parameters or modules


_known: dict[int, _Known] = {}
_numbers = itertools.count()


def _forgetter(key: int):
    def forget(_: object) -> None:
        _known.pop(key, None)

    return forget


def _know(module: Module) -> _Known:
    known = _known.get(id(module))
    if known is None or known.module() is not module:
        known = _known[id(module)] = _Known(module, next(_numbers))
    return known


def on_module(parent: Module, name: str, child: Module | None) -> None:
    """Registration hook of torch."""
    if type(parent).__name__ == "ModuleToTrace":
        _tracers.stay_out_of_strict_export()
    if not isinstance(child, Module) or torch.compiler.is_compiling():
        return
    try:
        owner, part = _know(parent), _know(child)
        owner.owns = True
        part.owners = [(ref, attribute) for ref, attribute in part.owners if ref() is not None]
        part.owners.append((owner.module, name))
        for module in (parent, child):
            if (tree := _tree_of.get(id(module))) is not None:
                _torch.stale(tree)
    except Exception:
        pass


def on_parameter(module: Module, name: str, parameter: torch.nn.Parameter | None) -> None:
    """Registration hook of torch."""
    if parameter is None or torch.compiler.is_compiling():
        return
    with contextlib.suppress(Exception):
        _know(module).owns = True


# ---- who owns a module ----


def module_hands_over(graph: Module) -> bool:
    """Whether what runs in this compiled graph is captured from within. tdump/_compiled.py puts its answer here."""
    return False


def remark(text: str) -> None:
    """A line for the coverage by which nothing is missing. The loader puts that of libtdump.so here."""


def owner_of(module: Module) -> Module | None:
    """A living module that has `module` among its parts, as registration told."""
    known = _known.get(id(module))
    if known is None or known.module() is not module:
        return None
    for reference, name in known.owners:
        owner = reference()
        if owner is not None and part_of(owner, name) is module:
            return owner
    return None


_searched = 0.0


def search_owner(module: Module) -> Module | None:
    """The same by looking through everything that refers to the module. Costs a walk over the heap."""
    global _searched
    if _searched > _SEARCH_SECONDS:
        # Where somebody does own it its records have another name, and get the right one as an alias when the owner is
        # called: nothing is lost.
        remark(
            f"the search for owners of modules ended after {_SEARCH_SECONDS:g} s: later modules without a registered "
            "owner are named as roots"
        )
        return None
    began = time.thread_time()  # on a busy machine as many searches as on another
    try:
        for parts in gc.get_referrers(module):
            if not isinstance(parts, dict) or not any(value is module for value in parts.values()):
                continue
            for holder in gc.get_referrers(parts):
                # The module itself, or the __dict__ of one.
                candidates = [holder] if isinstance(holder, Module) else []
                if type(holder) is dict and holder.get("_modules") is parts:
                    candidates = [m for m in gc.get_referrers(holder) if isinstance(m, Module)]
                for owner in candidates:
                    if owner.__dict__.get("_modules") is parts:
                        return owner
        return None
    finally:
        _searched += time.thread_time() - began


def top_of(module: Module) -> Module:
    """The top-most owner, the module itself when nobody owns it."""
    seen = {id(module)}
    while True:
        if id(module) in _given:
            return module
        owner = owner_of(module)
        if owner is None and (children(module) or _has_parameters(module)):
            owner = search_owner(module)
        if owner is None or id(owner) in seen:
            return module
        seen.add(id(owner))
        module = owner


def _has_parameters(module: Module) -> bool:
    return any(
        parameter is not None
        for part in _walk_once(module)
        for parameter in _scripted.members(part).get("_parameters", {}).values()
    )


def _walk_once(module: Module) -> Iterator[Module]:
    seen: set[int] = set()
    stack = [module]
    while stack:
        part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        stack.extend(child for _, child in children(part))


# ---- roots and their trees ----

_roots: dict[int, tuple[weakref.ref[Module], int]] = {}  # id -> (root, number)
_next_root = 0
_replaced: dict[int, weakref.ref[Module]] = {}  # by script modules, by id
_given: dict[int, tuple[weakref.ref[Module], str]] = {}  # id -> (root, prefix) by watch()
_tree_of: dict[int, int] = {}  # id of a named module -> number of its root


def _root_prefix(root: Module) -> tuple[int, str]:
    """Number and prefix of a root."""
    entry = _roots.get(id(root))
    number = entry[1] if entry is not None and entry[0]() is root else _number_roots(root)
    given = _given.get(id(root))
    if given is not None and given[0]() is root:
        return number, given[1]
    cls = _short_name(unwrap(root))
    if (prefix := _configured().get(cls)) is not None:
        return number, prefix
    return number, "" if number == 0 else f"{cls}#{number}"


@functools.cache
def _configured() -> dict[str, str]:
    """`names.roots` of the configuration: class -> prefix."""
    return dict(line.split("=", 1) for line in _torch.root_prefixes().splitlines() if "=" in line)


def prefix_of(root: Module) -> str:
    return _root_prefix(root)[1]


def _short_name(module: Module) -> str:
    return class_name(module).rpartition(".")[2] if _scripted.is_script(module) else class_of(module).__name__


def _number_roots(root: Module) -> int:
    """Numbers `root` and, before it, the roots that were constructed before it and are still alive. A script module
    takes the place of what it was made of, where that has not been called."""
    place = root
    for script in (root, *(known.module() for known in list(_known.values()))):
        origin = None if script is None else _scripted.origin(script)
        if origin is not None and id(origin) not in _roots:
            place = origin if script is root else place
            _replace(origin)
    for known in sorted(_known.values(), key=lambda known: known.number):
        module = known.module()
        if module is None or id(module) in _roots or module is root or known.number > _know(place).number:
            continue
        if (replaced := _replaced.get(id(module))) is not None and replaced() is module:
            continue
        if (
            known.owns
            and owner_of(module) is None
            and not type(module).__module__.startswith("torch.")
            and _has_parameters(module)
        ):
            _add_root(module)
    return _add_root(root)


def _replace(origin: Module) -> None:
    key = id(origin)
    _replaced[key] = weakref.ref(origin, lambda _: _replaced.pop(key, None))


def _add_root(root: Module) -> int:
    global _next_root
    key, number = id(root), _next_root
    _roots[key] = (weakref.ref(root, lambda _: _roots.pop(key, None)), number)
    _next_root += 1
    return number


def unwrap(module: Module) -> Module:
    while (attribute := wrapped_attribute(module)) is not None:
        inner = part_of(module, attribute)
        if not isinstance(inner, Module):
            break
        module = inner
    return module


def named_parts(root: Module) -> Iterator[tuple[str, Module]]:
    """(path, module) in the order of named_modules(), shared modules under each of their names (at most 64), wrappers
    left out. The root itself is ''. A module that contains itself ends the path there."""
    above: set[int] = set()
    visits: dict[int, int] = {}

    def walk(path: str, module: Module) -> Iterator[tuple[str, Module]]:
        visits[id(module)] = visits.get(id(module), 0) + 1
        if id(module) in above or visits[id(module)] > _MAX_ALIASES:
            return
        above.add(id(module))
        skipped = wrapped_attribute(module)
        if skipped is None:
            yield path, module
        for name, child in children(module):
            yield from walk(path if name == skipped else f"{path}.{name}" if path else name, child)
        above.discard(id(module))

    yield from walk("", root)


def describe_tree(root: Module) -> None:
    """Tells the collector the names of a whole tree."""
    paths: dict[int, list[str]] = {}
    modules: dict[int, Module] = {}
    for path, module in named_parts(root):
        modules[id(module)] = module
        paths.setdefault(id(module), []).append(path or ".")
    number, prefix = _root_prefix(root)
    top = unwrap(root)
    shared = _scripted.twins(list(modules.values()))
    for key, twin in shared.items():
        paths[id(twin)] += paths[key]
    try:
        for key, module in modules.items():
            first, *aliases = paths[id(shared.get(key, module))]
            leaf = not children(module)
            _tree_of[key] = number
            _torch.describe(module, number, prefix, first, class_name(module), leaf, module is top, aliases)
        for module in _walk_once(root):
            if wrapped_attribute(module) is not None:
                _torch.ignore(module)
        _torch.set_members(number, list(modules.values()))
        _scripted.describe(list(modules.values()))
    except BaseException:  # an interrupt of the job's
        _torch.stale(number)
        raise


_PARAMETERLESS = 1 << 32  # root numbers of modules without parameters count from here
_alone: dict[str, weakref.ref[Module]] = {}  # name -> the module that has it, or had it


def _describe_alone(module: Module) -> None:
    """A module that nobody owns and that owns no parameter, called beside the model: a loss, an activation. One that is
    made anew for each call gets the name of the one before."""
    name = _free_name(_short_name(module))
    _alone[name] = weakref.ref(module)
    number = _PARAMETERLESS + list(_alone).index(name)
    paths: dict[int, list[str]] = {}
    modules: dict[int, Module] = {}
    for path, part in named_parts(module):
        modules[id(part)] = part
        paths.setdefault(id(part), []).append(path or ".")
    for key, part in modules.items():
        first, *aliases = paths[key]
        _torch.describe(part, number, name, first, class_name(part), not children(part), False, aliases)
    _torch.set_members(number, list(modules.values()))
    _scripted.describe(list(modules.values()))


def _free_name(cls: str) -> str:
    """The first of Cls, Cls#1, Cls#2, ... that no living module has."""
    living = [(root(), number) for root, number in _roots.values()]
    roots = {number for module, number in living if module is not None and _short_name(module) == cls}
    for count in itertools.count():
        name = f"{cls}#{count}" if count else cls
        if count not in roots and (name not in _alone or _alone[name]() is None):
            return name
    raise AssertionError


def resolve(module: Module) -> None:
    """Called by the collector for a module it does not know, before the module's first forward."""
    if wrapped_attribute(module) is not None:
        _torch.ignore(module)
        return
    if is_compiled_graph(module):
        _torch.ignore(module)
        if module_hands_over(module):
            return
        _torch.note("torch.fx: a graph of a compiler is run as a module; not captured (not in this version)")
        return
    root = top_of(module)
    if root is module and not _has_parameters(module) and (_next_root > 0 or _any_model(module)):
        _describe_alone(module)
    else:
        describe_tree(root)


def resolve_class(cls: type) -> None:
    """Names every module of exactly this class that has no name yet, before it is called."""
    for known in list(_known.values()):
        module = known.module()
        if type(module) is cls and not _torch.known(module):
            resolve(module)


def watch(module: Module, name: str | None) -> None:
    """Names a tree before its first call; below `name` where one is given."""
    if not isinstance(module, Module):
        raise TypeError(f"expected a torch.nn.Module, got {type(module).__name__}")
    if name is not None:
        key = id(module)
        _given[key] = (weakref.ref(module, lambda _: _given.pop(key, None)), str(name))
    describe_tree(top_of(module))


def _any_model(other: Module) -> bool:
    """Whether any module but `other` owns parameters."""
    return any(
        known.owns and (module := known.module()) is not None and module is not other and _has_parameters(module)
        for known in list(_known.values())
    )
