"""One tensor of each of some dtypes through a module of its own; the test makes the same ones to compare."""

from __future__ import annotations

import torch
from identities import run


def tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(11)
    x = torch.randn(60, 200) * 3 + 0.5
    holes = x.clone()
    holes[0, :3] = torch.tensor([float("nan"), float("inf"), -float("inf")])
    return {
        "f32": x,
        "f64": x.double(),
        "bf16": x.bfloat16(),
        "f16": x.half(),
        "f8": x.to(torch.float8_e4m3fn),
        "i64": (x * 1e6).long() * 10**9,
        "flags": x > 0,
        "c64": torch.complex(x, -x),
        "holes": holes,
        "transposed": x.t(),
        "expanded": x[:1].expand(50, 200),
        "smooth": torch.sin(torch.arange(300_000) * 1e-4),
        "empty": torch.empty(0, 5),
        "empty_rows": torch.empty(5, 0),
        "empty_vector": torch.empty(0),
        "scalar": torch.tensor(-2.5),
    }


if __name__ == "__main__":
    run(tensors())
