"""One module call for each dtype torch can allocate, for each strided layout: through the hook goes a tensor whose
elements, in row-major order, have known bytes. Saves name -> (bytes, strides, conj, neg) to the file that is named.

The name of a case is that of its module, without "of.t_": <dtype>.<layout>.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

CASES: dict[str, tuple[torch.Tensor, bytes]] = {}


def dtypes() -> list[torch.dtype]:
    """Those that torch can make a plain tensor of: not the quantised ones."""
    found = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    return sorted((dtype for dtype in found if not str(dtype).startswith("torch.q")), key=str)


def pattern(dtype: torch.dtype, elements: int) -> bytes:
    """All byte values, in an order that depends on the position; bool has only two legal ones."""
    size = dtype.itemsize * elements
    if dtype == torch.bool:
        return bytes(i * 7 % 3 == 0 for i in range(size))
    return bytes((i * 89 + i // 256 * 13 + 5) % 256 for i in range(size))


def raw(dtype: torch.dtype, elements: int) -> torch.Tensor:
    """A one-dimensional tensor of exactly those bytes."""
    return torch.frombuffer(bytearray(pattern(dtype, elements)), dtype=dtype)


def take(data: bytes, unit: int, order: list[int]) -> bytes:
    return b"".join(data[i * unit : (i + 1) * unit] for i in order)


# Layout -> (elements below, view of them, position of each element of the view in row-major order). Dimensions of stride
# 0 are counted once, as the payload has them.
LAYOUTS: dict[str, tuple[int, Callable[[torch.Tensor], torch.Tensor], list[int]]] = {
    "plain": (256, lambda t: t.reshape(16, 16), list(range(256))),
    "scalar": (1, lambda t: t.reshape(()), [0]),
    "empty": (1, lambda t: t[:0].reshape(0, 3), []),
    "sliced": (256, lambda t: t[100:110], list(range(100, 110))),
    "transposed": (12, lambda t: t.reshape(3, 4).t(), [r * 4 + c for c in range(4) for r in range(3)]),
    "channels_last": (
        8,
        lambda t: t.reshape(1, 2, 2, 2).permute(0, 3, 1, 2),
        [h * 4 + w * 2 + c for c in range(2) for h in range(2) for w in range(2)],
    ),
    "stepped": (24, lambda t: t.reshape(4, 6)[1::2, ::3], [6, 9, 18, 21]),
    "diagonal": (16, lambda t: t.reshape(4, 4).diagonal(), [0, 5, 10, 15]),
    "expanded": (3, lambda t: t.reshape(3, 1).expand(3, 5), [0, 1, 2]),
    "one_to_million": (1, lambda t: t.reshape(1, 1).expand(1000, 1000), [0]),
    "overlapping": (6, lambda t: t.as_strided((3, 3), (1, 1), 1), [1 + i + j for i in range(3) for j in range(3)]),
    "five_dims": (
        32,
        lambda t: t.reshape(2, 2, 2, 2, 2).permute(4, 2, 0, 3, 1),
        [
            c * 16 + e * 8 + b * 4 + d * 2 + a
            for a in range(2)
            for b in range(2)
            for c in range(2)
            for d in range(2)
            for e in range(2)
        ],
    ),
}


def add_layouts(dtype: torch.dtype) -> None:
    for layout, (elements, view, order) in LAYOUTS.items():
        below = raw(dtype, elements)
        data = pattern(dtype, elements)
        CASES[f"{str(dtype)[6:]}.{layout}"] = (view(below), take(data, dtype.itemsize, order))


def add_lazy_views() -> None:
    """Conjugate and negative views: the values they stand for are what is recorded."""
    for dtype in (dtype for dtype in dtypes() if dtype.is_complex):
        z = raw(dtype, 4)
        kinds = {
            "conj": (z.conj(), [0, 1, 2, 3], False, True),
            "transposed_conj": (z.reshape(2, 2).mH, [0, 2, 1, 3], False, True),
            "neg": (torch._neg_view(z), [0, 1, 2, 3], True, True),
            "neg_conj": (torch._neg_view(z.conj()), [0, 1, 2, 3], True, False),
        }
        name, half = str(dtype)[6:], dtype.itemsize // 2
        for kind, (view, order, minus_real, minus_imag) in kinds.items():
            data = take(pattern(dtype, 4), dtype.itemsize, order)
            CASES[f"{name}.{kind}"] = (view, with_signs(data, half, minus_real, minus_imag))
        imaginary = take(pattern(dtype, 4), half, [1, 3, 5, 7])
        CASES[f"{name}_parts.imag_of_conj"] = (z.conj().imag, with_signs(imaginary, half, True, True))
    CASES["float32.neg"] = (
        torch._neg_view(raw(torch.float32, 3)),
        with_signs(pattern(torch.float32, 3), 4, True, True),
    )
    integers = torch.tensor([0, 1, -128, 127], dtype=torch.int8)
    CASES["int8.neg"] = (torch._neg_view(integers), bytes([0, 255, 128, 129]))


def with_signs(data: bytes, size: int, even: bool, odd: bool) -> bytes:
    """The sign bit of floats of `size` bytes flipped, at even and at odd positions."""
    out = bytearray(data)
    for n, last in enumerate(range(size - 1, len(out), size)):
        out[last] ^= 0x80 if (odd if n % 2 else even) else 0
    return bytes(out)


class Through(nn.Module):
    def forward(self, x: Any) -> Any:
        return x


class Root(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.of = nn.Module()
        for name in CASES:
            dtype, layout = name.split(".")
            if f"t_{dtype}" not in self.of._modules:  # nn.Module has methods called float, half, ...
                self.of.add_module(f"t_{dtype}", nn.Module())
            self.of.get_submodule(f"t_{dtype}").add_module(layout, Through())

    def forward(self) -> None:
        for name, (tensor, _) in CASES.items():
            out = self.of.get_submodule(f"t_{name}")(tensor)
            assert out is tensor


def main() -> None:
    for dtype in dtypes():
        add_layouts(dtype)
    add_lazy_views()
    Root()()
    expected = {f"of.t_{name}": (data, tuple(t.stride()), t.is_conj(), t.is_neg()) for name, (t, data) in CASES.items()}
    Path(sys.argv[1]).write_bytes(pickle.dumps(expected))


if __name__ == "__main__":
    main()
