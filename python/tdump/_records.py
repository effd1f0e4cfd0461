"""What a run consists of, as plain values. Filled from the dictionaries of ``tdump._io``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Record:
    """One tensor as it was seen at one point of one call, without its values (``Pass.tensor`` gives those).

    Sizes and strides are in units of ``dtype``: what torch counts as one element, ``unit_bytes`` bytes long.
    """

    id: int
    name: str  # of the operator: the dotted module path, "path/aten::mm" for an ATen op
    key: str  # text of the whole key, unique in its pass: "path/op::callN@role#arg"
    root: str
    path: str
    op: str
    role: str  # input, output, before, after, grad_input, grad_output, param, param_grad, state
    arg: str  # path within the arguments: "0", "kwargs.mask"; "" for a value returned alone
    call: int
    micro: int
    chunk: int
    phase: str  # forward, backward
    recompute: bool
    lane: int
    kind: str
    cls: str
    aliases: tuple[str, ...]
    leaf: bool
    call_begin: int
    seen: int
    late: bool
    compiled: bool
    dtype: str
    bits_per_element: int
    elements_per_unit: int
    unit_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    storage_offset: int
    storage_id: int
    storage_bytes: int
    layout: str
    device: str
    conj: bool
    neg: bool
    requires_grad: bool
    subclass: str
    dims: str
    placements: str
    mesh: str
    dim_names: str
    global_shape: tuple[int, ...]
    asked: tuple[str, ...]  # parts: meta, hash, stats, sample, slice, payload
    kept: tuple[str, ...]
    filter_sets: int
    reason: str  # why less was kept than asked for; "" when nothing is missing
    reason_detail: str
    bytes: int | None  # of the payload or slice, None where none was kept
    hash: str | None  # XXH3-128 over the tiles' digests, hexadecimal
    # kind, count, finite, nan, positive_inf, negative_inf, zeros, negative_zeros, histogram; of the finite values min,
    # max, absmax, mean, std (as torch.std), mean_abs, l1, l2, rms, each None where there is none; of integers sum
    stats: dict[str, Any] | None
    sample: bytes | None  # units, evenly spaced (``Pass.sample`` gives a tensor)
    slice: tuple[tuple[int, int, int], ...] | None  # (begin, size, step) of each dimension, where only a slice was kept


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One execution of an operator. ``begin`` and ``end`` are of one sequence per process: an operator that ran inside
    another lies between the other's two. ``end`` is 0 when the operator raised."""

    name: str
    root: str
    path: str
    op: str
    kind: str
    begin: int
    end: int
    parent: int  # ``begin`` of the enclosing call, 0 for none
    index: int
    micro: int
    chunk: int
    lane: int
    thread: int
    stream: int
    phase: str
    recompute: bool
    compiled: bool
    threw: bool
    text: str  # scalar and string arguments
    arguments: tuple[tuple[str, str, str, tuple[int, ...]], ...]  # role, arg, dtype, shape


@dataclass(frozen=True, slots=True)
class PassInfo:
    """What one process recorded in one step, as the head of its file says it."""

    ordinal: int
    local_step: int
    mode_step: int
    job_step: int | None
    mode: str
    generation: int
    rank: int
    world: int
    pid: int
    started_ns: int
    host: str


@dataclass(frozen=True, slots=True)
class PassEntry:
    """A pass as the run's manifests list it, under the step number that the ranks agreed on."""

    ordinal: int
    local_step: int
    mode_step: int
    job_step: int | None
    mode: str
    generation: int
    rank: int
    world: int
    pid: int
    started_ns: int
    host: str
    process: int  # n-th process with this rank number
    directory: str
    file: str  # relative to the run
    offset: int  # in a packed file; 0: the file is this pass's own
    step: int
    agreed: bool  # False: ``step`` is the process's own count
    extra: bool  # the rank ran one step that the others did not
    part: bool  # unfinished: killed, or the job still runs
    records: int
    calls: int
    file_bytes: int
    payload_bytes: int
    error: str


@dataclass(frozen=True, slots=True)
class Damage:
    file: str
    offset: int  # bytes
    what: str

    def __str__(self) -> str:
        return f"{self.file}: offset {self.offset}: {self.what}"
