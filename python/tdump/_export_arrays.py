"""Tensors of a run as .npy, .npz and .safetensors. One tensor is in memory at a time."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tdump._io import DamagedError

if TYPE_CHECKING:
    from tdump._export import Selection
    from tdump.reader import Pass, PassEntry, Record

# The names that the safetensors format has for dtypes; others are left out, and told.
_SAFETENSORS = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "complex64": "C64",
}
_HEAD = ("file", "step", "rank", "key", "dtype", "shape", "hash")


def _with_values(selection: Selection, opened: Pass) -> Iterator[Record]:
    return (record for record in selection.records(opened) if record.bytes is not None)


def _values(selection: Selection, opened: Pass, record: Record) -> np.ndarray | None:
    """Contiguous, of a type that numpy itself has; None and an entry in ``damage`` where they cannot be read."""
    try:
        array = opened.tensor(record.id)
    except DamagedError as error:
        selection.damage.append(str(error))
        return None
    if not isinstance(array, np.ndarray):
        return None
    plain = np.dtype(array.dtype.str)  # without the name in its metadata, which no file holds
    return np.ascontiguousarray(array).view(plain).reshape(array.shape)


def _file_name(key: str) -> str:
    """One that every system takes, different for different keys."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", key)[:150].strip("._")
    return name if name == key else f"{name}-{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


def _cell(value: object) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\x{ord(m[0]):02x}", str(value))


def _whole(path: Path, write: Callable[[Path], None]) -> None:
    """The file is under its name when it is whole."""
    part = path.with_name(path.name + ".part")
    try:
        write(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_npy(selection: Selection, directory: Path) -> str:
    lines = ["\t".join(_HEAD)]
    for entry, opened in selection.passes():
        for record in _with_values(selection, opened):
            array = _values(selection, opened, record)
            if array is None:
                continue
            file = _file_name(f"step{entry.step}_rank{entry.rank}_p{entry.process}_{record.key}") + ".npy"

            def write(part: Path, array: np.ndarray = array) -> None:
                with part.open("wb") as out:
                    np.lib.format.write_array(out, array, allow_pickle=False)

            _whole(directory / file, write)
            cells = (file, entry.step, entry.rank, record.key, record.dtype, list(array.shape), record.hash or "")
            lines.append("\t".join(map(_cell, cells)))
    _whole(directory / "names.tsv", lambda part: _write_lines(part, lines))
    return f"{len(lines) - 1:,} tensors in {directory}; names.tsv says which is which"


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="backslashreplace")


def _pass_file(entry: PassEntry, suffix: str) -> str:
    process = f"_p{entry.process}" if entry.process else ""
    return f"step{entry.step}_rank{entry.rank}{process}{'_extra' if entry.extra else ''}.{suffix}"


def write_npz(selection: Selection, directory: Path) -> str:
    files = tensors = 0

    def write(part: Path, opened: Pass) -> None:
        nonlocal tensors
        dtypes = {}
        with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
            for record in _with_values(selection, opened):
                array = _values(selection, opened, record)
                if array is None:
                    continue
                _add(archive, record.key, array)
                dtypes[record.key] = record.dtype
                tensors += 1
            _add(archive, "dtypes", np.array(json.dumps(dtypes)))

    for entry, opened in selection.passes():
        _whole(directory / _pass_file(entry, "npz"), lambda part, opened=opened: write(part, opened))
        files += 1
    return f"{tensors:,} tensors in {files:,} files in {directory}"


def _add(archive: zipfile.ZipFile, key: str, array: np.ndarray) -> None:
    name = key.encode("utf-8", "backslashreplace").decode("utf-8")
    with archive.open(name + ".npy", "w", force_zip64=True) as out:
        np.lib.format.write_array(out, array, allow_pickle=False)


def write_safetensors(selection: Selection, directory: Path) -> str:
    files = tensors = left_out = 0
    for entry, opened in selection.passes():
        records = list(_with_values(selection, opened))
        known = [record for record in records if record.dtype in _SAFETENSORS]
        left_out += len(records) - len(known)
        # The header comes first and says where each tensor is: what cannot be read must be known before.
        readable = [record for record in known if _values(selection, opened, record) is not None]
        header, chosen = _safetensors_header(readable)

        def write(part: Path, opened: Pass = opened, header: bytes = header, chosen: list[Record] = chosen) -> None:
            with part.open("wb") as out:
                out.write(header)
                for record in chosen:
                    array = _values(selection, opened, record)
                    if array is None:
                        raise DamagedError(f"{record.key}: could be read once, and not again")
                    out.write(array.tobytes())

        _whole(directory / _pass_file(entry, "safetensors"), write)
        files, tensors = files + 1, tensors + len(chosen)
    told = f"; {left_out:,} left out, of dtypes that the format does not have" if left_out else ""
    return f"{tensors:,} tensors in {files:,} files in {directory}{told}"


def _whole_bytes(record: Record) -> int:
    """Of all elements, those stored once included."""
    count = record.unit_bytes
    for size in _kept_shape(record):
        count *= size
    return count


def _kept_shape(record: Record) -> tuple[int, ...]:
    return record.shape if record.slice is None else tuple(size for _, size, _ in record.slice)


def _safetensors_header(records: list[Record]) -> tuple[bytes, list[Record]]:
    """Eight bytes of length, then a JSON object: {name: {dtype, shape, data_offsets}}."""
    entries: dict[str, Any] = {"__metadata__": {"format": "tdump"}}
    offset, chosen = 0, []
    for record in records:
        name = record.key.encode("utf-8", "backslashreplace").decode("utf-8")
        if name in entries:
            continue
        end = offset + _whole_bytes(record)
        entries[name] = {
            "dtype": _SAFETENSORS[record.dtype],
            "shape": list(_kept_shape(record)),
            "data_offsets": [offset, end],
        }
        offset = end
        chosen.append(record)
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, chosen


WRITERS: dict[str, Callable[[Selection, Path], str]] = {
    "npy": write_npy,
    "npz": write_npz,
    "safetensors": write_safetensors,
}
