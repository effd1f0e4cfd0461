"""Reading what tdump wrote: ``tdump.load_pass(file)`` for one pass, ``tdump.open(run)`` for a whole run.

    p = tdump.load_pass("outputs/latest/rank0_pid4711/pass00000.tdp")
    p["encoder.layer.0.attention.self.query"]            # a tensor, read from the file when it is asked for
    run = tdump.open("latest")
    run[0, 2]["encoder.layer.0.attention.self.query"]    # step 0 of rank 2

Tensors are private views of the file, on the CPU: writing to one changes neither the file nor another tensor. A tensor
expanded along a dimension keeps it expanded (stride 0).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from tdump import _components, _io, _tensors
from tdump._io import DamagedError
from tdump._records import CallRecord, Damage, PassEntry, PassInfo, Record

__all__ = [
    "CallRecord",
    "Damage",
    "DamagedError",
    "Pass",
    "PassEntry",
    "PassInfo",
    "Record",
    "Run",
    "load_pass",
    "open",
]

_CALLS_AT_ONCE = 1024
# Where values are missing: how to get what is there.
_INSTEAD = {"stats": "; record(name).stats has the statistics", "sample": "; sample(name) has the sample"}


class Pass(Mapping[str, Any]):
    """One pass: a mapping from plain names to the outputs of its forward calls, in the order in which they appeared.

    The n-th output of an operator is ``name``, ``name::call1``, ``name::call2``, ... over the whole pass; the parts of
    a structured output are ``name.0``, ``name::call1.hidden``. Recomputed forwards are left out. Any record can also be
    had by the text of its key: ``p["encoder@input#0"]``, and a shared module by its other names. Only what kept its
    values is a key of the mapping; ``records()`` has all. Where only a slice was kept, the tensor is that slice and
    ``record(name).slice`` says which.
    """

    def __init__(self, file: _io.PassFile, kind: Literal["torch", "numpy"], verify: bool, allow_damage: bool) -> None:
        self._file = file
        self._kind = kind
        self._verify = verify
        self.path = Path(file.path)
        self.info = PassInfo(**file.info)
        self.complete: bool = file.complete
        self.damage = tuple(Damage(*item) for item in file.damage)
        self._names = names = file.names()
        self._judge(names.error, allow_damage)
        self._ids: dict[str, int] = names.kept
        self._not_kept: dict[str, int] = names.not_kept
        self._aliases: dict[str, int] = names.aliases

    def _judge(self, error: str | None, allow_damage: bool) -> None:
        """Warns of what is unfinished, raises on what is damaged."""
        if error is None and self.complete and not self.damage:
            return
        text = error or "; ".join(map(str, self.damage)) or f"{self.path}: no footer"
        if error is None and self.path.name.endswith(".part"):
            warnings.warn(f"unfinished pass, read as far as it goes: {text}", stacklevel=4)
        elif allow_damage:
            warnings.warn(f"damaged pass, what stands is read: {text}", stacklevel=4)
        else:
            raise DamagedError(f"{text} (allow_damage=True reads what stands)")

    def __getitem__(self, name: str) -> Any:
        return self.tensor(self._id_of(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, name: object) -> bool:
        return name in self._ids

    def __repr__(self) -> str:
        info = self.info
        return f"<tdump pass {self.path}: rank {info.rank}, local step {info.local_step}, {len(self)} outputs>"

    def record(self, name: str | int) -> Record:
        """The record of a plain name, a key text or an id, whatever was kept of it."""
        return Record(**self._file.record(name if isinstance(name, int) else self._id_of(name)))

    def tensor(self, record: Record | int) -> Any:
        """The values of a record; where only a slice was kept, those. A sparse, nested or quantised tensor is put
        together from its components; with numpy, the first two are dictionaries of these, the last its integers."""
        if not isinstance(record, Record):
            record = self.record(record)
        if record.layout in _components.LAYOUTS and record.bytes is None:
            return self._composite(record)
        if record.bytes is None:
            why = " ".join(filter(None, (record.reason, record.reason_detail)))
            raise KeyError(
                f"{record.key}: its values were not kept, only {' and '.join(record.kept)}"
                + (f" ({why})" if why else "")
                + "".join(hint for part, hint in _INSTEAD.items() if part in record.kept)
            )
        payload = self._file.payload(record.id, self._verify) if record.bytes else None
        tensor = _tensors.make(record, payload, self._kind)
        if self._kind == "torch" and record.subclass in _components.SCHEMES and record.slice is None:
            return _components.quantise(record, tensor, self._parts(record, _components.SCHEMES[record.subclass]))
        return tensor

    def _composite(self, record: Record) -> Any:
        besides = _components.OPTIONAL.get(record.layout, ())
        there = tuple(name for name in besides if self._names.find(_components.key_of(record, name)) is not None)
        parts = self._parts(record, _components.LAYOUTS[record.layout] + there)
        return _components.assemble(record, parts) if self._kind == "torch" else parts

    def _parts(self, record: Record, names: tuple[str, ...]) -> dict[str, Any]:
        """The components of a tensor, which have records of their own."""
        try:
            parts = {name: self.record(self._id_of(_components.key_of(record, name))) for name in names}
            for part in parts.values():
                if part.slice is not None:
                    raise KeyError(f"only a slice of {part.key} was")
            return {name: self.tensor(part) for name, part in parts.items()}
        except KeyError as error:
            why = " ".join(filter(None, (record.reason, record.reason_detail))) or str(error)
            raise KeyError(f"{record.key}: the values of its components were not kept ({why})") from None

    def sample(self, record: Record | str | int) -> Any:
        """The elements that ``level: sample`` kept of a record: element ``k`` of ``n`` is number
        ``k * (numel - 1) // (n - 1)`` in row-major order."""
        if not isinstance(record, Record):
            record = self.record(record)
        if record.sample is None:
            raise KeyError(f"{record.key}: no sample was kept, only {' and '.join(record.kept)}")
        return _tensors.make_sample(record, self._kind)

    def _records_named(self, name: str) -> Iterator[Record]:
        """Those that ``name`` means as the end of an address does: a key or a plain name with ``::callN``, ``@role``
        and ``#arg`` left out at will, or what a report prints of a record."""
        for number in self._file.named(os.fsencode(name)):
            yield Record(**self._file.record(number))

    def records(self) -> Iterator[Record]:
        """All records that can be read, in file order."""
        for number in self._names.order:
            yield Record(**self._file.record(number))

    def calls(self) -> Iterator[CallRecord]:
        """All calls of selected operators, in file order."""
        first = 0
        while batch := self._file.calls(first, _CALLS_AT_ONCE):
            yield from (CallRecord(**call) for call in batch)
            first += _CALLS_AT_ONCE

    def verify(self) -> list[Damage]:
        """Reads everything, payloads included; what does not hold."""
        return [Damage(*item) for item in self._file.verify()]

    def _id_of(self, name: str) -> int:
        number = self._ids.get(name)
        if number is None:
            number = self._not_kept.get(name)  # tensor() says why it has no values
        if number is None:
            number = self._aliases.get(name)
        if number is None and "@" in name:
            number = self._names.find(name)
        if number is None:
            raise KeyError(f"{self.path} has no record {name!r}{_near(name, self._ids)}")
        return number


def _near(name: str, names: Mapping[str, int]) -> str:
    import difflib

    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"; nearest: {', '.join(near)}" if near else ""


def load_pass(
    path: str | os.PathLike[str],
    *,
    as_: _tensors.Kind = "auto",
    verify: bool = True,
    allow_damage: bool = False,
) -> Pass:
    """Opens one pass file; ``FILE#ORDINAL`` is one pass of a packed file.

    ``as_``: "torch", "numpy", or "auto" (torch where it is installed). numpy has no bfloat16, float8 and the like:
    those come as unsigned integers with the name in ``array.dtype.metadata["tdump"]``. ``verify``: compare payloads
    with their checksums when they are read. A ``.part`` file is read as far as it goes, with a warning. Damage raises
    ``tdump.DamagedError``, which names file and offset; with ``allow_damage`` what stands is read and the rest warned
    of.
    """
    if os.path.isdir(path):
        raise IsADirectoryError(f"'{os.fspath(path)}' is a directory: tdump.open() opens a run, load_pass() a file")
    return Pass(_io.open_pass(os.fsencode(path)), _tensors.resolve_kind(as_), verify, allow_damage)


class Run:
    """A run directory, one generation of it. Works at any time: while the job runs, after a kill.

    ``run[step, rank]`` is a ``Pass``; where several processes had one rank number, ``run[step, rank, process]``.
    """

    def __init__(
        self,
        contents: dict[str, Any],
        kind: Literal["torch", "numpy"],
        verify: bool,
        allow_damage: bool,
    ) -> None:
        self.path = Path(contents["path"])
        self.generation: int = contents["generation"]
        self.passes = tuple(PassEntry(**entry) for entry in contents["passes"])
        self.damage = tuple(Damage(*item) for item in contents["damage"])
        self._contents = contents
        self._options = (kind, verify, allow_damage)

    @property
    def steps(self) -> list[int]:
        """Steps that some rank wrote, ascending."""
        return sorted({entry.step for entry in self.passes if not entry.extra})

    @property
    def ranks(self) -> list[int]:
        """Ranks that wrote something, ascending."""
        return sorted({entry.rank for entry in self.passes})

    def __getitem__(self, place: tuple[int, ...]) -> Pass:
        if not isinstance(place, tuple) or len(place) not in (2, 3):
            raise TypeError("a run is indexed as run[step, rank] or run[step, rank, process]")
        return self.open(self._entry(*place))

    def _entry(self, step: int, rank: int, process: int | None = None) -> PassEntry:
        found = [e for e in self.passes if (e.step, e.rank) == (step, rank) and process in (None, e.process)]
        found = [e for e in found if not e.extra] or found
        if not found:
            raise KeyError(
                f"{self.path} has no step {step} of rank {rank}: steps {_spec(self.steps)}, ranks {_spec(self.ranks)}"
            )
        if len({e.process for e in found}) > 1:
            raise KeyError(
                f"several processes have rank {rank}: run[{step}, {rank}, N] with N of {[e.process for e in found]}"
            )
        return found[0]

    def open(self, entry: PassEntry) -> Pass:
        """The pass of an entry of ``passes``. KeyError: it could not be written, and why."""
        if not entry.file:
            raise KeyError(
                f"{self.path}: step {entry.step} of rank {entry.rank} is in no file"
                + (f": {entry.error}" if entry.error else "")
            )
        file = self.path / entry.file
        place = (entry.offset, entry.file_bytes, entry.ordinal, entry.rank, entry.pid)
        return Pass(_io.open_listed_pass(os.fsencode(file), *place), *self._options)

    def records(self, step: int | None = None, rank: int | None = None) -> Iterator[tuple[PassEntry, Record]]:
        """Every record with the pass it is of; of one step or one rank where given. Never holds more than a pass."""
        for entry in self.passes:
            if step in (None, entry.step) and rank in (None, entry.rank):
                for record in self.open(entry).records():
                    yield entry, record

    def data_frame(self, step: int | None = None, rank: int | None = None) -> Any:
        """The same as a pandas DataFrame: a row a record, the fields of ``Record`` after step, mode, rank, process."""
        try:
            import pandas
        except ImportError:
            raise ImportError("data_frame() needs pandas: pip install pandas, or use records()") from None
        columns = ["step", "mode", "rank", "process", *Record.__dataclass_fields__]
        rows = (
            (
                entry.step,
                entry.mode,
                entry.rank,
                entry.process,
                *(getattr(record, c) for c in columns[4:]),
            )
            for entry, record in self.records(step, rank)
        )
        return pandas.DataFrame.from_records(rows, columns=columns)

    def __repr__(self) -> str:
        extent = f"steps {_spec(self.steps)}, ranks {_spec(self.ranks)}"
        return f"<tdump run {self.path} (generation {self.generation}): {extent}>"


def _spec(numbers: list[int]) -> str:
    """[0, 1, 2, 5] as "0-2,5"."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][1] + 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts) or "none"


def open(  # the public name is tdump.open
    run: str | os.PathLike[str] = "latest",
    *,
    as_: _tensors.Kind = "auto",
    verify: bool = True,
    allow_damage: bool = False,
) -> Run:
    """Opens a run: its directory, "latest", or "RUN@generation". Options as of ``load_pass``."""
    return Run(_io.read_run(os.fsencode(run)), _tensors.resolve_kind(as_), verify, allow_damage)
