"""The index of a run as Parquet: a row for each record, without its values, and one for each pass.

Rows are written as they are read, a row group at a time: memory does not grow with the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdump._export_files import utf8, whole_file

if TYPE_CHECKING:
    from tdump._export import Selection
    from tdump.reader import PassEntry, Record

_ROWS_AT_ONCE = 32_768
_STATISTICS = {
    "count": "uint64",
    "finite": "uint64",
    "nan": "uint64",
    "positive_inf": "uint64",
    "negative_inf": "uint64",
    "zeros": "uint64",
    "min": "float64",
    "max": "float64",
    "absmax": "float64",
    "mean": "float64",
    "std": "float64",
    "mean_abs": "float64",
    "l1": "float64",
    "l2": "float64",
    "rms": "float64",
}


# Column, type, and how it is had from (entry, record) or from an entry. Types: pyarrow's names, [x] a list of x.
_PLACE: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("step", "uint64", lambda e: e.step),
    ("rank", "int32", lambda e: e.rank),
    ("process", "int32", lambda e: e.process),
    ("generation", "int32", lambda e: e.generation),
    ("mode", "string", lambda e: e.mode),
    ("extra", "bool_", lambda e: e.extra),
]
_PASS: list[tuple[str, str, Callable[[Any], Any]]] = [
    *_PLACE,
    ("local_step", "uint64", lambda e: e.local_step),
    ("job_step", "int64", lambda e: e.job_step),
    ("agreed", "bool_", lambda e: e.agreed),
    ("part", "bool_", lambda e: e.part),
    ("world", "int32", lambda e: e.world),
    ("host", "string", lambda e: utf8(e.host)),
    ("pid", "int64", lambda e: e.pid),
    ("started_ns", "uint64", lambda e: e.started_ns),
    ("file", "string", lambda e: utf8(e.file)),
    ("records", "uint64", lambda e: e.records),
    ("calls", "uint64", lambda e: e.calls),
    ("file_bytes", "uint64", lambda e: e.file_bytes),
    ("payload_bytes", "uint64", lambda e: e.payload_bytes),
]
_RECORD: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("id", "uint64", lambda r: r.id),
    ("name", "string", lambda r: utf8(r.name)),
    ("key", "string", lambda r: utf8(r.key)),
    ("path", "string", lambda r: utf8(r.path)),
    ("op", "string", lambda r: utf8(r.op)),
    ("role", "string", lambda r: r.role),
    ("arg", "string", lambda r: utf8(r.arg)),
    ("call", "uint64", lambda r: r.call),
    ("micro", "uint32", lambda r: r.micro),
    ("phase", "string", lambda r: r.phase),
    ("recompute", "bool_", lambda r: r.recompute),
    ("kind", "string", lambda r: r.kind),
    ("class", "string", lambda r: utf8(r.cls)),
    ("leaf", "bool_", lambda r: r.leaf),
    ("call_begin", "uint64", lambda r: r.call_begin),
    ("seen", "uint64", lambda r: r.seen),
    ("dtype", "string", lambda r: utf8(r.dtype)),
    ("shape", "[int64]", lambda r: list(r.shape)),
    ("strides", "[int64]", lambda r: list(r.strides)),
    ("layout", "string", lambda r: r.layout),
    ("device", "string", lambda r: utf8(r.device)),
    ("subclass", "string", lambda r: utf8(r.subclass)),
    ("dims", "string", lambda r: utf8(r.dims)),
    ("placements", "string", lambda r: utf8(r.placements)),
    ("mesh", "string", lambda r: utf8(r.mesh)),
    ("global_shape", "[int64]", lambda r: list(r.global_shape)),
    ("asked", "[string]", lambda r: [utf8(part) for part in r.asked]),
    ("kept", "[string]", lambda r: [utf8(part) for part in r.kept]),
    ("reason", "string", lambda r: utf8(r.reason)),
    ("reason_detail", "string", lambda r: utf8(r.reason_detail)),
    ("bytes", "uint64", lambda r: r.bytes),
    ("hash", "string", lambda r: r.hash),
    *(
        (f"stat_{name}", kind, lambda r, name=name, kind=kind: _statistic(r, name, kind))
        for name, kind in _STATISTICS.items()
    ),
]


def _statistic(record: Record, name: str, kind: str) -> int | float | None:
    value = None if record.stats is None else record.stats.get(name)
    return float(value) if value is not None and kind == "float64" else value


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        from tdump._export import Trouble

        raise Trouble("--parquet needs pyarrow, which this Python has not: pip install pyarrow") from None
    return pyarrow, pyarrow.parquet


class _Table:
    """A Parquet file that grows by row groups."""

    def __init__(self, path: Path, columns: list[tuple[str, str, Callable[[Any], Any]]]) -> None:
        self._arrow, parquet = _pyarrow()
        self._schema = self._arrow.schema([(name, self._type(kind)) for name, kind, _ in columns])
        self._writer = parquet.ParquetWriter(path, self._schema, compression="zstd")
        self._columns: list[list[Any]] = [[] for _ in columns]
        self.rows = 0

    def _type(self, kind: str) -> Any:
        inner = getattr(self._arrow, kind.strip("[]"))()
        return self._arrow.list_(inner) if kind.startswith("[") else inner

    def add(self, values: Iterator[Any]) -> None:
        """A row: one value for each column."""
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)
        self.rows += 1
        if len(self._columns[0]) >= _ROWS_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Writes the rows that were added as a row group."""
        if not self._columns[0]:
            return
        arrays = [self._arrow.array(c, field.type) for c, field in zip(self._columns, self._schema, strict=True)]
        self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
        for column in self._columns:
            column.clear()

    def close(self) -> None:
        """Ends the file."""
        self._writer.close()


@contextmanager
def _table(path: Path, columns: list[tuple[str, str, Callable[[Any], Any]]]) -> Iterator[_Table]:
    with whole_file(path) as part, closing(_Table(part, columns)) as table:
        yield table
        table.flush()


def write_index(selection: Selection, directory: Path) -> str:
    """records.parquet and passes.parquet. Returns what was written, in words."""
    with (
        _table(directory / "passes.parquet", _PASS) as passes,
        _table(directory / "records.parquet", _PLACE + _RECORD) as records,
    ):
        for entry, opened in selection.passes():
            passes.add(take(entry) for _, _, take in _PASS)
            for record in selection.records(opened):
                records.add(_row(entry, record))
    return f"{records.rows:,} records of {passes.rows:,} passes in {directory}/records.parquet, passes.parquet"


def _row(entry: PassEntry, record: Record) -> Iterator[Any]:
    yield from (take(entry) for _, _, take in _PLACE)
    yield from (take(record) for _, _, take in _RECORD)
