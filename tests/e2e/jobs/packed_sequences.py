"""Two steps of sequences packed into one dimension, of other lengths in each, on the ranks of an MPI launcher: every
sequence is folded over them (context parallel, zig-zag), and all are given the same cu_seqlens."""

from __future__ import annotations

import os

import torch
from torch import nn

RANK, WORLD = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 4)

    def forward(self, tokens: torch.Tensor, *, cu_seqlens: torch.Tensor) -> torch.Tensor:
        return self.project(tokens).tanh()


def own(tokens: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    parts = []
    for sequence in tokens.split(lengths):
        pieces = sequence.chunk(2 * WORLD)
        parts += [pieces[RANK], pieces[2 * WORLD - 1 - RANK]]
    return torch.cat(parts)


def main() -> None:
    torch.manual_seed(4)
    attention = Attention()
    for lengths in ([8, 12, 4], [16, 4]):
        cu_seqlens = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
        tokens = torch.randn(sum(lengths), 4)
        attention(own(tokens, lengths), cu_seqlens=cu_seqlens)


if __name__ == "__main__":
    main()
