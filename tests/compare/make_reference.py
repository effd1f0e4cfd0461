"""Writes reference.txt, the numbers that reference_test.cc holds Measure to: NumPy and torch decode and compute.

    python tests/compare/make_reference.py > tests/compare/reference.txt

One line a case: dtype, elements, bytes of A and of B in hexadecimal, relative, scale, then what is right. Floating-point
numbers are in C's hexadecimal form. Integers are computed as Python's, so they are exact at any width.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import torch

RELATIVE, SCALE = 0.125, 0.25
FLOATS = [
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]
INTEGERS = ["int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"]
COMPLEX = ["complex128", "complex64"]
ELEMENTS = 48
SPECIAL = [(math.nan, math.nan), (math.inf, math.inf), (math.inf, -math.inf), (math.nan, 1.0), (1.0, math.inf)]


def decode(dtype: str, raw: bytes) -> np.ndarray:
    """Every value of these formats is exact in float64 (complex128)."""
    tensor = torch.frombuffer(bytearray(raw), dtype=getattr(torch, dtype))
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64).numpy()


def encode(dtype: str, value: float) -> bytes:
    return torch.tensor([value]).to(getattr(torch, dtype)).view(torch.uint8).numpy().tobytes()


def near_pair(dtype: str, rng: np.random.Generator) -> tuple[bytes, bytes]:
    """Finite numbers, a fifth of them a little apart, one of the other sign; a number that no vector divides."""
    numbers = rng.standard_normal(ELEMENTS + 2) * 2.0 ** rng.integers(-6, 6, ELEMENTS + 2)
    others = numbers * (1 + 0.1 * rng.standard_normal(numbers.shape) * (rng.random(numbers.shape) < 0.2))
    others[7] *= -1
    kind = getattr(torch, dtype)
    return tuple(torch.from_numpy(x).to(kind).view(torch.uint8).numpy().tobytes() for x in (numbers, others))


def pair(dtype: str, rng: np.random.Generator) -> tuple[bytes, bytes]:
    """A of any bits, NaN payloads and both zeros among them; B equal but for a few elements near and far."""
    width = torch.empty(0, dtype=getattr(torch, dtype)).element_size()
    a = bytearray(rng.integers(0, 256, ELEMENTS * width, dtype=np.uint8).tobytes())
    a[: 2 * width] = bytes(2 * width)
    b = bytearray(a)
    for element in rng.choice(ELEMENTS, 14, replace=False):
        at = element * width
        if element % 2:
            b[at] ^= 1  # the lowest bit of the number, or of its real part
        else:
            b[at : at + width] = rng.integers(0, 256, width, dtype=np.uint8).tobytes()
    b[2 * width - 1] = 0x80  # the other zero, or the only NaN, or a most negative integer
    if dtype in FLOATS:
        for element, (left, right) in enumerate(SPECIAL, start=2):
            a[element * width : (element + 1) * width] = encode(dtype, left)
            b[element * width : (element + 1) * width] = encode(dtype, right)
        if width > 1:
            b[2 * width] ^= 1  # a NaN of another payload
    return bytes(a), bytes(b)


def special(x: np.ndarray) -> np.ndarray:
    return ~np.isfinite(x)


def rms(x: np.ndarray) -> float:
    values = np.abs(x[np.isfinite(x)])
    with np.errstate(over="ignore"):
        mean = math.sqrt(float(np.sum(values * values)) / len(values)) if len(values) else 0.0
    return mean if math.isfinite(mean) else 0.0


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == b) | (np.isnan(a) & np.isnan(b))


def same_special(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Part by part: both NaN, or the same infinity; finite parts may be anything."""
    return (np.isnan(a) & np.isnan(b)) | (a == b) | (np.isfinite(a) & np.isfinite(b))


# dtype: bits of the mantissa, least exponent of a normal number (float64: that of UlpScale)
ULP = {
    "float64": (52, -900),
    "float32": (23, -126),
    "float16": (10, -14),
    "bfloat16": (7, -126),
    "float8_e4m3fn": (3, -6),
    "float8_e5m2": (2, -14),
    "float8_e4m3fnuz": (3, -7),
    "float8_e5m2fnuz": (2, -15),
    "float8_e8m0fnu": (0, -126),
}
ULP_BINS = 66


def ulps(dtype: str, magnitude: np.ndarray, larger: np.ndarray) -> np.ndarray:
    """Errors in units in the last place of the larger number."""
    mantissa, least = ULP[dtype]
    exponent = np.maximum(np.frexp(larger)[1] - 1, least)
    return np.where(magnitude > 0, np.ldexp(magnitude, mantissa - exponent), 0.0)


def ulp_bins(errors: np.ndarray) -> str:
    """Bin 0: none; 1: less than one; k: from 2^(k-2) to below 2^(k-1)."""
    with np.errstate(divide="ignore"):
        bins = np.where(errors < 1, 1, np.floor(np.log2(np.maximum(errors, 1))) + 2)
    counts = np.bincount(np.where(errors == 0, 0, np.minimum(bins, ULP_BINS - 1)).astype(int))
    return ",".join(f"{i}:{n}" for i, n in enumerate(counts) if n)


def spread(error: np.ndarray, larger: np.ndarray, a: np.ndarray, b: np.ndarray) -> dict[str, float]:
    """Sums over finite pairs, in long double: NumPy's squares of doubles overflow."""
    magnitude = np.abs(error)
    if not len(magnitude):
        return {}
    wide = magnitude.astype(np.longdouble)
    square = np.sum(wide * wide)
    with np.errstate(all="ignore"):
        relative = np.where(magnitude > 0, magnitude / larger, 0)
    right = {"mean_abs": np.mean(wide), "mean_rel": np.mean(relative), "rmse": np.sqrt(square / len(wide))}
    parts_a, parts_b = (np.stack([x.real, x.imag]).astype(np.longdouble) for x in (a, b))
    signal, other = np.sum(parts_a**2), np.sum(parts_b**2)
    if signal > 0 and other > 0:
        right["cosine"] = 1.0 if square == 0 else np.sum(parts_a * parts_b) / np.sqrt(signal) / np.sqrt(other)
    if square > 0 and signal > 0:
        right["sqnr_db"] = 10 * np.log10(signal / square)
    for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)):
        right[name] = np.quantile(magnitude, q, method="inverted_cdf")
    return {name: float(value) for name, value in right.items()}


def floats(dtype: str, a: np.ndarray, b: np.ndarray) -> dict[str, float | str]:
    finite = ~special(a) & ~special(b)
    with np.errstate(all="ignore"):
        difference, larger = np.abs(a - b), np.maximum(np.abs(a), np.abs(b))
        relative = np.where(difference > 0, difference / larger, 0)
    bound = SCALE * min(rms(a), rms(b))
    with np.errstate(all="ignore"):
        close = finite & (difference - RELATIVE * larger <= bound)
    within = close | (~finite & same_special(a, b) & (special(a) == special(b)))
    signed = ~np.isnan(a) & ~np.isnan(b) & (np.signbit(a) != np.signbit(b))
    return {
        "within": int(within.sum()),
        "nan_a": int(np.isnan(a).sum()),
        "nan_b": int(np.isnan(b).sum()),
        "inf_a": int(np.isinf(a).sum()),
        "inf_b": int(np.isinf(b).sum()),
        "nan_mismatch": int((np.isnan(a) != np.isnan(b)).sum()),
        "sign_mismatch": int(signed.sum()),
        "zero_sign_mismatch": int((signed & (a == 0) & (b == 0)).sum()),
        "inf_mismatch": int(((special(a) | special(b)) & (np.isnan(a) == np.isnan(b)) & ~same(a, b)).sum()),
        "max_abs": float(difference[finite].max(initial=0)),
        "max_rel": float(relative[finite].max(initial=0)),
        "rms_a": rms(a),
        "rms_b": rms(b),
        "mean_error": float(np.mean(b[finite].astype(np.longdouble) - a[finite])),
        "max_ulp": float(ulps(dtype, difference[finite], larger[finite]).max(initial=0)),
        "ulp": ulp_bins(ulps(dtype, difference[finite], larger[finite])),
        **spread((b - a)[finite], larger[finite], a[finite], b[finite]),
    }


def complexes(dtype: str, a: np.ndarray, b: np.ndarray) -> dict[str, float]:
    parts_a, parts_b = a.view(np.float64).reshape(-1, 2), b.view(np.float64).reshape(-1, 2)
    matched = same_special(parts_a, parts_b) & (special(parts_a) == special(parts_b))
    alike = matched.all(axis=1)
    both = np.isfinite(parts_a) & np.isfinite(parts_b)
    with np.errstate(all="ignore"):
        gaps = np.where(both, parts_a - parts_b, 0)
        difference = np.hypot(gaps[:, 0], gaps[:, 1])
        larger = np.maximum(np.hypot(*parts_a.T), np.hypot(*parts_b.T))
    larger = np.where(both.all(axis=1), larger, 0)
    bound = SCALE * min(rms(a), rms(b))
    with np.errstate(all="ignore"):
        within = alike & (difference - RELATIVE * larger <= bound)
    nan_a, nan_b = np.isnan(parts_a).any(axis=1), np.isnan(parts_b).any(axis=1)
    finite = both.all(axis=1)
    measured = spread((b - a)[finite], larger[finite], a[finite], b[finite]) if (finite == alike).all() else {}
    return {
        "within": int(within.sum()),
        "nan_a": int(nan_a.sum()),
        "nan_b": int(nan_b.sum()),
        "max_abs": float(difference[alike].max(initial=0)),
        "rms_a": rms(a),
        "rms_b": rms(b),
        **measured,
    }


def integers(dtype: str, raw_a: bytes, raw_b: bytes) -> dict[str, float | str]:
    a = [int(x) for x in np.frombuffer(raw_a, dtype=dtype)]
    b = [int(x) for x in np.frombuffer(raw_b, dtype=dtype)]
    differences = [abs(x - y) for x, y in zip(a, b, strict=True)]
    relatives = [d / max(abs(x), abs(y)) for d, x, y in zip(differences, a, b, strict=True) if d]
    return {
        "within": differences.count(0),
        "sign_mismatch": sum((x < 0) != (y < 0) for x, y in zip(a, b, strict=True)),
        "max_abs_text": str(max(differences)),
        "max_rel": max(relatives, default=0.0),
        "max_ulp": float(max(differences)),
        "mean_error": float(sum(y - x for x, y in zip(a, b, strict=True)) / len(a)),
        "rmse": math.sqrt(sum(d * d for d in differences) / len(a)),
    }


def bits_equal(width: int, raw_a: bytes, raw_b: bytes) -> int:
    return sum(raw_a[i : i + width] == raw_b[i : i + width] for i in range(0, len(raw_a), width))


def text(value: float | int | str) -> str:
    return value.hex() if isinstance(value, float) else str(value)


def main() -> None:
    rng = np.random.default_rng(7)
    for dtype in FLOATS + INTEGERS + COMPLEX:
        for case in range(3 if dtype in INTEGERS else 5):
            a, b = pair(dtype, rng) if case < 3 else near_pair(dtype, rng)
            if dtype in INTEGERS:
                right = integers(dtype, a, b)
            else:
                right = (complexes if dtype in COMPLEX else floats)(dtype, decode(dtype, a), decode(dtype, b))
            width = torch.empty(0, dtype=getattr(torch, dtype)).element_size()
            right = {"bits_equal": bits_equal(width, a, b), **right}
            fields = [dtype, len(a) // width, a.hex(), b.hex(), text(RELATIVE), text(SCALE)]
            fields += [f"{name}={text(value)}" for name, value in right.items()]
            sys.stdout.write(" ".join(map(str, fields)) + "\n")


if __name__ == "__main__":
    main()
