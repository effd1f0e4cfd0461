"""Tensors that consist of others: sparse, nested and quantised ones, from the records of their components
(collectors/torch/components.h names them)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdump._records import Record

# Layout -> the components that make the tensor. Its own record has no values.
LAYOUTS: dict[str, tuple[str, ...]] = {
    "sparse_coo": ("indices", "values"),
    "sparse_csr": ("crow_indices", "col_indices", "values"),
    "sparse_bsr": ("crow_indices", "col_indices", "values"),
    "sparse_csc": ("ccol_indices", "row_indices", "values"),
    "sparse_bsc": ("ccol_indices", "row_indices", "values"),
    "nested": ("values", "sizes", "strides", "offsets"),
    "jagged": ("values", "offsets"),
}
# Those that some tensors of a layout have besides.
OPTIONAL: dict[str, tuple[str, ...]] = {"jagged": ("lengths", "jagged_dim")}
# How integers are to be read (``Record.subclass``) -> the components beside them.
SCHEMES: dict[str, tuple[str, ...]] = {
    "per_tensor_affine": ("scales", "zero_points"),
    "per_channel_affine": ("scales", "zero_points", "axis"),
    "per_channel_affine_float_qparams": ("scales", "zero_points", "axis"),
}


def key_of(record: Record, component: str) -> str:
    """Key text of a component: the same key, its argument's name with a suffix."""
    head, _, tail = record.key.partition("#")
    arg, mark, rest = tail.partition("~")
    return f"{head}#{arg}{'.' if arg else ''}{component}{mark}{rest}"


def assemble(record: Record, parts: dict[str, Any]) -> Any:
    """The torch tensor whose components are ``parts``."""
    import torch

    if record.layout == "sparse_coo":
        return torch.sparse_coo_tensor(
            parts["indices"],
            parts["values"],
            record.shape,
            is_coalesced=record.subclass == "coalesced",
            check_invariants=False,
        )
    if record.layout in ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"):
        make: Callable[..., Any] = getattr(torch, f"{record.layout}_tensor")
        return make(*(parts[name] for name in LAYOUTS[record.layout]), record.shape, check_invariants=False)
    if record.layout == "nested":
        if parts["sizes"].dim() != 2:  # without any tensor in it
            return torch.nested.nested_tensor([], dtype=parts["values"].dtype)
        return torch._nested_view_from_buffer(parts["values"], parts["sizes"], parts["strides"], parts["offsets"])
    dim = parts.get("jagged_dim")
    return torch.nested.nested_tensor_from_jagged(
        parts["values"], parts["offsets"], parts.get("lengths"), jagged_dim=None if dim is None else dim.item()
    )


def quantise(record: Record, integers: Any, parts: dict[str, Any]) -> Any:
    """The quantised torch tensor of these integers."""
    import torch

    if record.subclass == "per_tensor_affine":
        return torch._make_per_tensor_quantized_tensor(integers, parts["scales"].item(), parts["zero_points"].item())
    return torch._make_per_channel_quantized_tensor(
        integers, parts["scales"], parts["zero_points"], parts["axis"].item()
    )
