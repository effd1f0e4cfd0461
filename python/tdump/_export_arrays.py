"""Tensors of a run as .npy, .npz and .safetensors. One tensor is in memory at a time."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tdump._export_files import plural, utf8, whole_file
from tdump._io import DamagedError

if TYPE_CHECKING:
    from tdump._export import Selection
    from tdump.reader import Pass, Record

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


def _with_values(selection: Selection, opened: Pass) -> Iterator[tuple[str, Record]]:
    """Records that have values, under names that differ: a key that comes again has the record's id behind it."""
    seen = set()
    for record in selection.records(opened):
        if record.bytes is None:
            selection.without_values["+".join(record.kept)] += 1
            continue
        name = utf8(record.key)
        if name in seen:
            name = f"{name} ({record.id})"
        seen.add(name)
        yield name, record


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


def _file_name(name: str) -> str:
    """One that every system takes, different for different names."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name)[:150].strip("._")
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _cell(value: object) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\x{ord(m[0]):02x}", str(value))


def write_npy(selection: Selection, directory: Path) -> str:
    """One file a tensor, and names.tsv with a line for each. Returns what was written, in words."""
    lines = ["\t".join(_HEAD)]
    for entry, opened in selection.passes():
        stem = selection.stem(entry)
        for name, record in _with_values(selection, opened):
            array = _values(selection, opened, record)
            if array is None:
                continue
            file = _file_name(f"{stem}_{name}") + ".npy"
            with whole_file(directory / file) as part, part.open("wb") as out:
                np.lib.format.write_array(out, array, allow_pickle=False)
            cells = (file, entry.step, entry.rank, record.key, record.dtype, list(array.shape), record.hash or "")
            lines.append("\t".join(map(_cell, cells)))
    if len(lines) == 1:
        return ""
    with whole_file(directory / "names.tsv") as part:
        part.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="backslashreplace")
    return f"{plural(len(lines) - 1, 'tensor')} in {directory}; names.tsv says which is which"


def write_npz(selection: Selection, directory: Path) -> str:
    """One file for each pass, with the names of the dtypes as an array of their own. Returns what was written."""
    files = tensors = 0
    for entry, opened in selection.passes():
        records = _with_values(selection, opened)
        first = next(records, None)
        if first is None:
            continue
        dtypes = {}
        with (
            whole_file(directory / f"{selection.stem(entry)}.npz") as part,
            zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive,
        ):
            for name, record in itertools.chain([first], records):
                array = _values(selection, opened, record)
                if array is None:
                    continue
                _add(archive, name, array)
                dtypes[name] = record.dtype
            _add(archive, "dtypes", np.array(json.dumps(dtypes)))
        files, tensors = files + 1, tensors + len(dtypes)
    return _summary(tensors, files, directory)


def _summary(tensors: int, files: int, directory: Path) -> str:
    return f"{plural(tensors, 'tensor')} in {plural(files, 'file')} in {directory}" if tensors else ""


def _add(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with archive.open(name + ".npy", "w", force_zip64=True) as out:
        np.lib.format.write_array(out, array, allow_pickle=False)


def write_safetensors(selection: Selection, directory: Path) -> str:
    """One file for each pass, without the dtypes that the format does not have. Returns what was written."""
    files = tensors = 0
    for entry, opened in selection.passes():
        records = dict(_with_values(selection, opened))
        known = {name: record for name, record in records.items() if record.dtype in _SAFETENSORS}
        selection.of_unknown_dtypes += len(records) - len(known)
        # The header comes first and says where each tensor is: what cannot be read must be known before.
        chosen = {name: record for name, record in known.items() if _values(selection, opened, record) is not None}
        if not chosen:
            continue
        with whole_file(directory / f"{selection.stem(entry)}.safetensors") as part, part.open("wb") as out:
            out.write(_safetensors_header(chosen))
            for record in chosen.values():
                array = _values(selection, opened, record)
                if array is None:
                    raise DamagedError(f"{record.key}: could be read once, and not again")
                out.write(array.tobytes())
        files, tensors = files + 1, tensors + len(chosen)
    return _summary(tensors, files, directory)


def _whole_bytes(record: Record) -> int:
    """Of all elements, those stored once included."""
    count = record.unit_bytes
    for size in _kept_shape(record):
        count *= size
    return count


def _kept_shape(record: Record) -> tuple[int, ...]:
    return record.shape if record.slice is None else tuple(size for _, size, _ in record.slice)


def _safetensors_header(records: dict[str, Record]) -> bytes:
    """Eight bytes of length, then a JSON object: {name: {dtype, shape, data_offsets}}."""
    entries: dict[str, Any] = {"__metadata__": {"format": "tdump"}}
    offset = 0
    for name, record in records.items():
        end = offset + _whole_bytes(record)
        entries[name] = {
            "dtype": _SAFETENSORS[record.dtype],
            "shape": list(_kept_shape(record)),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


WRITERS: dict[str, Callable[[Selection, Path], str]] = {
    "npy": write_npy,
    "npz": write_npz,
    "safetensors": write_safetensors,
}
