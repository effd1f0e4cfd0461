"""Tensors that consist of others through modules that change nothing; the test makes the same ones to compare."""

from __future__ import annotations

import torch
from identities import run


def tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    dense = torch.arange(12.0).reshape(3, 4).where(torch.arange(12).reshape(3, 4) % 3 == 0, 0)
    blocks = torch.zeros(4, 6)
    blocks[:2, 2:4] = torch.randn(2, 2)
    rows = [torch.randn(n, 2) for n in (1, 3, 2)]
    x = torch.randn(4, 5)
    zero_points = torch.tensor([30, 50, 60, 90])
    scales = torch.tensor([0.1, 0.2, 0.05, 1.0], dtype=torch.float64)
    return {
        "coo_uncoalesced": torch.sparse_coo_tensor([[0, 0, 2], [1, 1, 3]], [1.0, 2.0, 3.0], (3, 4)),
        "coo": dense.to_sparse(),
        "csr": dense.to_sparse_csr(),
        "csc": dense.to_sparse_csc(),
        "bsr": blocks.to_sparse_bsr((2, 2)),
        "bsc": blocks.to_sparse_bsc((2, 2)),
        "nested": torch.nested.nested_tensor(rows),
        "nested_empty": torch.nested.nested_tensor([], dtype=torch.float64),
        "jagged": torch.nested.nested_tensor(rows, layout=torch.jagged),
        "jagged_heads": torch.nested.nested_tensor(rows, layout=torch.jagged).unflatten(-1, (2, 1)).transpose(1, 2),
        "jagged_lengths": torch.nested.nested_tensor_from_jagged(
            torch.randn(10, 3), torch.tensor([0, 4, 7, 10]), torch.tensor([2, 3, 1])
        ),
        "jagged_last": torch.nested.nested_tensor_from_jagged(
            torch.randn(3, 10), torch.tensor([0, 4, 7, 10]), jagged_dim=2
        ),
        "per_tensor": torch.quantize_per_tensor(x, 0.25, 3, torch.qint8),
        "per_channel_64": torch.quantize_per_channel(x, scales, zero_points, 0, torch.quint8),
        "per_channel_32": torch.quantize_per_channel(
            x, scales.to(torch.float32), zero_points.to(torch.int32), 0, torch.quint8
        ),
    }


if __name__ == "__main__":
    run(tensors())
