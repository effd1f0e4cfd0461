"""From payload bytes to tensors: torch on the CPU, or numpy where there is no torch."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Any, Literal

from tdump._records import Record

Kind = Literal["auto", "torch", "numpy"]

# numpy's own types; every other dtype comes as unsigned integers that hold its bits.
_NUMPY = frozenset(
    [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ]
)


_INTEGERS = {"qint8": "int8", "quint8": "uint8", "qint32": "int32"}


def resolve_kind(as_: str) -> Literal["torch", "numpy"]:
    """What "auto" means here. Imports torch only when it is meant."""
    if as_ == "numpy":
        return "numpy"
    if as_ == "torch" or (as_ == "auto" and importlib.util.find_spec("torch") is not None):
        return "torch"
    if as_ == "auto":
        return "numpy"
    raise ValueError(f'as_ is {as_!r}; expected "auto", "torch" or "numpy"')


def make(record: Record, payload: Any, kind: Literal["torch", "numpy"]) -> Any:
    """The tensor of ``record`` from its payload (a buffer, None when it has no bytes), without a copy."""
    return _torch_tensor(record, payload) if kind == "torch" else _numpy_array(record, payload)


def make_sample(record: Record, kind: Literal["torch", "numpy"]) -> Any:
    """The sampled elements of ``record``, one dimension."""
    units = bytearray(record.sample or b"")
    flat = replace(record, shape=(len(units) // max(record.unit_bytes, 1),), strides=(1,), slice=None)
    return make(flat, units or None, kind)


def _shape(record: Record) -> tuple[int, ...]:
    """Of the values that were kept."""
    return record.shape if record.slice is None else tuple(size for _, size, _ in record.slice)


def _stored_shape(record: Record) -> tuple[int, ...]:
    """The shape of what is stored: dimensions of stride 0 once."""
    shape = _shape(record)
    if record.layout != "strided" or not record.strides:
        return shape
    return tuple(1 if stride == 0 and size else size for size, stride in zip(shape, record.strides, strict=True))


def _torch_tensor(record: Record, payload: Any) -> Any:
    import torch

    shape, final = _stored_shape(record), _shape(record)
    # The integers of a quantised tensor: torch makes no such tensor of bytes.
    dtype = getattr(torch, _INTEGERS.get(record.dtype, record.dtype), None)
    if not isinstance(dtype, torch.dtype) or dtype.itemsize != record.unit_bytes:
        # A dtype this torch does not know: its bits.
        dtype = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}.get(record.unit_bytes)
        if dtype is None:
            dtype, shape, final = (
                torch.uint8,
                (*shape, record.unit_bytes),
                (*final, record.unit_bytes),
            )
    if payload is None:
        return torch.empty(final, dtype=dtype)
    tensor = torch.frombuffer(payload, dtype=dtype).reshape(shape)
    return tensor if shape == final else tensor.expand(final)


def _numpy_array(record: Record, payload: Any) -> Any:
    import numpy as np

    dtype = _numpy_dtype(record)
    shape, final = _stored_shape(record), _shape(record)
    if payload is None:
        return np.empty(final, dtype=dtype)
    array = np.frombuffer(payload, dtype=dtype).reshape(shape)
    return array if shape == final else np.broadcast_to(array, final)


def _numpy_dtype(record: Record) -> Any:
    """numpy's type of that name; else unsigned integers (or voids) of that width with ``dtype.metadata["tdump"]`` =
    the name."""
    import numpy as np

    if record.dtype in _NUMPY:
        return np.dtype(record.dtype)
    base = f"u{record.unit_bytes}" if record.unit_bytes in (1, 2, 4, 8) else f"V{record.unit_bytes}"
    return np.dtype(base, metadata={"tdump": record.dtype})
