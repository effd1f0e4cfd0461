"""Two forwards in evaluation mode: a shared module, dtypes that NumPy lacks, an output of 24 MiB."""

from __future__ import annotations

import torch
from torch import nn


class Narrow(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"bf16": x.bfloat16(), "f8": x.to(torch.float8_e4m3fn), "row": x[:1].expand(3, 4)}


class Large(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.arange(6 << 20, dtype=torch.float32).add_(x.sum())


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(4, 4)
        self.tied = self.dense
        self.narrow = Narrow()
        self.large = Large()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.narrow(x)
        return self.large(self.tied(self.dense(x)))


torch.manual_seed(0)
model = Model().eval()
with torch.no_grad():
    for step in range(2):
        model(torch.full((2, 4), float(step + 1)))
