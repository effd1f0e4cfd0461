"""MiniLM-L6 in a chosen precision, one sentence a step; a LayerNorm may be wrong.

python lossy_minilm.py [--precision float32|bfloat16|fp8] [--inputs N] [--norm MODULE ... [--factors F ...] [--element I]]

fp8 is simulated: every Linear rounds its input and its weight to float8_e4m3fn, each divided by one scale that takes its
largest magnitude to the largest number of the format, and multiplies what it rounded in float32.

A step is one sentence. With --norm the sentences are gone through once for each MODULE and factor F, the weight of MODULE
(one element of it with --element) multiplied by F: of M factors step (j * M + k) * N + i is sentence i with factor k in
module j.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples" / "minilm"))

import torch
import torch.nn.functional as F
from encode import SENTENCES, load_encoder
from torch import nn


def through_float8(x: torch.Tensor) -> torch.Tensor:
    """What is left of ``x`` after float8_e4m3fn with one scale for the tensor."""
    scale = x.abs().amax() / torch.finfo(torch.float8_e4m3fn).max
    return (x / scale).to(torch.float8_e4m3fn).to(x.dtype) * scale


class Float8Linear(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.linear(through_float8(input), through_float8(self.weight), self.bias)


def in_precision(model: nn.Module, precision: str) -> nn.Module:
    if precision == "fp8":
        for module in model.modules():
            if type(module) is nn.Linear:
                module.__class__ = Float8Linear
        return model
    return model.to(getattr(torch, precision))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", choices=["float32", "bfloat16", "fp8"], default="float32")
    parser.add_argument("--inputs", type=int, default=20)
    parser.add_argument("--norm", nargs="+", default=[])
    parser.add_argument("--factors", type=float, nargs="+", default=[1.0])
    parser.add_argument("--element", type=int)
    args = parser.parse_args()
    torch.set_num_threads(1)

    model, tokenizer = load_encoder()
    model = in_precision(model, args.precision)
    weights = [model.get_submodule(norm).weight for norm in args.norm] or [torch.empty(0)]
    wrong = slice(None) if args.element is None else slice(args.element, args.element + 1)
    sentences = SENTENCES.read_text(encoding="utf-8").splitlines()[: args.inputs]
    with torch.inference_mode():
        for weight, factor in product(weights, args.factors):
            original = weight.detach().clone()
            weight.data[wrong] *= factor
            for sentence in sentences:
                model(**tokenizer(sentence, return_tensors="pt"))
            weight.data.copy_(original)


if __name__ == "__main__":
    main()
