"""Writes reference.txt, the numbers that reference_test.cc holds Measure to: NumPy decodes and computes.

    python tests/compare/make_reference.py > tests/compare/reference.txt
    python tests/compare/make_reference.py --check tests/compare/reference.txt

With --check nothing is written: exit status 0 where the file is what would be, 1 where it is not, 77 without NumPy.

One line a case: dtype of A, of B, sizes ("37x29"; "-": no dimensions), bytes of A and of B in hexadecimal ("-": none), relative,
scale, then what is right. Bytes are repeated until the tensor is full; `put=I:HEX:HEX` is another element I of both. Numbers
that are counted or are one element's are in C's hexadecimal form, sums of many in 15 digits. Integers are computed as
Python's, so they are exact at any width; sums of the others are NumPy's in long double, for squares of doubles overflow.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("make_reference.py: skipped, this Python has no NumPy", file=sys.stderr)
    sys.exit(77)

RELATIVE, SCALE = 0.125, 0.25
ULP_BINS = 66
MOST_CHANNELS = 1 << 20


@dataclass(frozen=True)
class Float:
    """Bits of exponent and mantissa, bias; whether it has infinities, a sign, a -0."""

    exponent: int
    mantissa: int
    bias: int
    infinite: bool = True
    signed: bool = True
    zero: str = "both"  # "both", "one": the pattern of -0 is the only NaN; "none"

    @property
    def width(self) -> int:
        return (self.signed + self.exponent + self.mantissa) // 8

    @property
    def least(self) -> int:
        """The exponent of the smallest normal number, as UlpScale has it."""
        return max(1 - self.bias, -900)


FLOATS = {
    "float64": Float(11, 52, 1023),
    "float32": Float(8, 23, 127),
    "float16": Float(5, 10, 15),
    "bfloat16": Float(8, 7, 127),
    "float8_e4m3fn": Float(4, 3, 7, infinite=False),
    "float8_e5m2": Float(5, 2, 15),
    "float8_e4m3fnuz": Float(4, 3, 8, infinite=False, zero="one"),
    "float8_e5m2fnuz": Float(5, 2, 16, infinite=False, zero="one"),
    "float8_e8m0fnu": Float(8, 0, 127, infinite=False, signed=False, zero="none"),
}
INTEGERS = ["int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]
COMPLEX = {"complex128": "float64", "complex64": "float32"}
ELEMENTS = 48


def width_of(dtype: str) -> int:
    if dtype in FLOATS:
        return FLOATS[dtype].width
    return np.dtype(dtype).itemsize


def small_value(code: int, kind: Float) -> float:
    """Of a format of one byte, by its definition."""
    mantissa = code & ((1 << kind.mantissa) - 1)
    exponent = code >> kind.mantissa & ((1 << kind.exponent) - 1)
    negative = kind.signed and code >> 7 == 1
    ones = exponent == (1 << kind.exponent) - 1
    if kind.zero == "none":
        return math.nan if ones else math.ldexp(1.0, exponent - kind.bias)
    if kind.zero == "one" and code == 0x80:
        return math.nan
    if ones and kind.infinite:
        return math.nan if mantissa else math.copysign(math.inf, -1 if negative else 1)
    if ones and kind.zero == "both" and mantissa == (1 << kind.mantissa) - 1:
        return math.nan
    fraction = mantissa / (1 << kind.mantissa) + (exponent > 0)
    value = math.ldexp(fraction, max(exponent, 1) - kind.bias)
    return -value if negative else value


SMALL = {name: np.array([small_value(code, f) for code in range(256)]) for name, f in FLOATS.items() if f.width == 1}


def decode(dtype: str, raw: np.ndarray) -> np.ndarray:
    """Bytes to float64 (complex128): every value of these formats is exact there, but for integers of more than 53 bits."""
    if dtype in SMALL:
        return SMALL[dtype][raw]
    if dtype == "bfloat16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype in COMPLEX:
        with np.errstate(invalid="ignore"):  # signalling NaN
            return raw.view(dtype).astype(np.complex128)
    if dtype == "bool":
        return (raw != 0).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return raw.view(dtype).astype(np.float64)


def integers_of(dtype: str, raw: np.ndarray) -> list[int]:
    return [int(x) for x in (raw != 0 if dtype == "bool" else raw.view(dtype))]


def encode(dtype: str, values: list[float] | list[complex]) -> bytes:
    """To a near number of the format; infinity to NaN where it has none."""
    if dtype in COMPLEX:
        return np.array(values, dtype=dtype).tobytes()
    if dtype in SMALL:
        return bytes(small_code(dtype, x) for x in values)
    if dtype == "bfloat16":
        words = np.array(values, dtype=np.float32).view(np.uint32)
        rounded = np.where(np.isnan(values), words | 0x400000, words + 0x7FFF + (words >> 16 & 1))
        return (rounded >> 16).astype(np.uint16).tobytes()
    if dtype in FLOATS:
        return np.array(values, dtype=dtype).tobytes()
    if dtype == "bool":
        return bytes(x > 0 for x in values)
    info = np.iinfo(dtype)
    return np.array([min(max(round(x), int(info.min)), int(info.max)) for x in values], dtype=dtype).tobytes()


def small_code(dtype: str, value: float) -> int:
    table = SMALL[dtype]
    if math.isnan(value) or (math.isinf(value) and not FLOATS[dtype].infinite):
        return int(np.flatnonzero(np.isnan(table))[0])
    if math.isinf(value):
        return int(np.flatnonzero(table == value)[0])
    distance = np.where(np.isfinite(table), np.abs(table - value), np.inf)
    code = int(np.argmin(distance))
    negative_zero = value == 0 and math.copysign(1, value) < 0 and FLOATS[dtype].zero == "both"
    return 0x80 if negative_zero else code


@dataclass
class Case:
    dtype_a: str
    dtype_b: str
    sizes: tuple[int, ...]
    bytes_a: bytes
    bytes_b: bytes
    puts: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)

    @property
    def channels(self) -> int:
        """0: the last dimension has one index, too many, or is all there is."""
        last = self.sizes[-1] if self.sizes else 1
        return last if 2 <= last <= MOST_CHANNELS and last < self.elements else 0

    def side(self, which: int) -> np.ndarray:
        dtype, period = ((self.dtype_a, self.bytes_a), (self.dtype_b, self.bytes_b))[which]
        raw = np.resize(np.frombuffer(period, np.uint8), self.elements * width_of(dtype)).copy()
        for index, both in self.puts.items():
            raw[index * width_of(dtype) : (index + 1) * width_of(dtype)] = np.frombuffer(both[which], np.uint8)
        return raw


# ---- cases ----


class Draw(random.Random):
    """Plain arithmetic on Mersenne Twister's bits: the same numbers with every version of Python and NumPy."""

    def normal(self) -> float:
        return sum(self.random() for _ in range(12)) - 6

    def chosen(self, count: int, of: int) -> list[int]:
        return sorted(range(of), key=lambda _: self.random())[:count]


def near_values(draw: Draw, count: int, least: int = -6, most: int = 6) -> tuple[list[float], list[float]]:
    """Finite numbers, a fifth of them a little apart, one of the other sign."""
    numbers = [draw.normal() * 2.0 ** draw.randrange(least, most) for _ in range(count)]
    others = [x * (1 + (0.1 * draw.normal() if draw.random() < 0.2 else 0)) for x in numbers]
    others[7 % count] *= -1
    return numbers, others


def of_dtype(dtype: str, values: list[float], draw: Draw) -> list[float] | list[complex]:
    if dtype in COMPLEX:
        return [complex(x, draw.normal()) for x in values]
    if dtype in FLOATS:
        return values
    return [100 * x for x in values]


SPECIAL = [(math.nan, math.nan), (math.inf, math.inf), (math.inf, -math.inf), (math.nan, 1.0), (1.0, math.inf)]


def any_bits(dtype: str, draw: Draw) -> Case:
    """A of any bits, NaN payloads and both zeros among them; B equal but for a few elements near and far."""
    width = width_of(dtype)
    a = bytearray(draw.randbytes(ELEMENTS * width))
    a[: 2 * width] = bytes(2 * width)
    b = bytearray(a)
    for element in draw.chosen(14, ELEMENTS):
        at = element * width
        if element % 2:
            b[at] ^= 1  # the lowest bit of the number, or of its real part
        else:
            b[at : at + width] = draw.randbytes(width)
    b[2 * width - 1] = 0x80  # the other zero, or the only NaN, or a most negative integer
    if dtype in FLOATS:
        for element, both in enumerate(SPECIAL, start=2):
            for raw, value in zip((a, b), both, strict=True):
                raw[element * width : (element + 1) * width] = encode(dtype, [value])
        if width > 1:
            b[2 * width] ^= 1  # a NaN of another payload
    return Case(dtype, dtype, (ELEMENTS,), bytes(a), bytes(b))


def near(dtype_a: str, dtype_b: str, sizes: tuple[int, ...], period: int, draw: Draw) -> Case:
    """B is A in its own dtype, or a little apart."""
    numbers, others = near_values(draw, period)
    raw = []
    for dtype, values in ((dtype_a, numbers), (dtype_b, others)):
        raw.append(encode(dtype, of_dtype(dtype, values, draw)))
    return Case(dtype_a, dtype_b, sizes, *raw)


def put(case: Case, index: int, a: complex, b: complex) -> None:
    both = tuple(encode(d, [x]) for d, x in ((case.dtype_a, a), (case.dtype_b, b)))
    case.puts[index] = both


def subnormals(dtype: str) -> list[bytes]:
    """The least, the largest and a negative one, and both zeros."""
    kind = FLOATS[dtype]
    sign = 1 << (8 * kind.width - 1)
    codes = [1, (1 << kind.mantissa) - 1, sign | 1, 0, sign if kind.zero == "both" else 0]
    return [code.to_bytes(kind.width, "little") for code in codes]


def special_case(dtype_a: str, dtype_b: str, draw: Draw) -> Case:
    """Everything that is special of floats, each against each."""
    case = near(dtype_a, dtype_b, (80,), 80, draw)
    signs = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0]
    for index, (a, b) in enumerate(itertools.product(signs, signs)):
        put(case, 3 + index, a, b)
    tiny = [subnormals(d) if FLOATS[d].zero != "none" else [b"\0"] * 5 for d in (dtype_a, dtype_b)]
    for index, (a, b) in enumerate(itertools.product(*tiny)):
        case.puts[45 + index] = (a, b)
    return case


MIXED = [
    ("float32", "bfloat16"),
    ("bfloat16", "float32"),
    ("float32", "float16"),
    ("float64", "float32"),
    ("float16", "bfloat16"),
    *(("float32", small) for small in SMALL),
    ("float8_e4m3fn", "float8_e5m2"),
    ("float8_e4m3fnuz", "float8_e4m3fn"),
    ("bfloat16", "float8_e4m3fn"),
    ("float64", "float8_e5m2fnuz"),
    ("int8", "int32"),
    ("uint8", "int8"),
    ("bool", "uint8"),
    ("int64", "int32"),
    ("uint64", "int64"),
    ("int32", "float32"),
    ("int8", "bfloat16"),
    ("float16", "uint16"),
    ("int64", "float32"),
    ("float64", "uint64"),
    ("complex64", "complex128"),
    ("complex64", "float32"),
    ("float16", "complex128"),
    ("int16", "complex64"),
]
# 1073 elements are two tiles; 3 chunks of 2^18 are work for as many threads.
LARGE = [
    ("float32", "float32"),
    ("bfloat16", "bfloat16"),
    ("float32", "bfloat16"),
    ("float16", "float8_e4m3fn"),
    ("float64", "float32"),
    ("int16", "int16"),
    ("int32", "float16"),
    ("complex64", "complex64"),
]
WIDE, PERIOD = (700, 900), 131  # prime


def large(dtype_a: str, dtype_b: str, sizes: tuple[int, ...], draw: Draw) -> Case:
    """The worst element lies far behind the first, and there is a second one like it; likewise of the relative errors, which
    are largest where numbers are small. One channel is off on nine rows."""
    case = near(dtype_a, dtype_b, sizes, PERIOD, draw)
    rows, columns = sizes
    for row in range(0, rows, rows // 9):
        put(case, row * columns + columns // 3, 2.0, 2.5 if row % 2 else 90.0)
    for index in (case.elements * 5 // 6, case.elements - 2):
        put(case, index, 300.0, 100.0)
    for index in (case.elements * 2 // 3, case.elements - 1):
        put(case, index, 0.0, 0.25 if dtype_b in FLOATS or dtype_b in COMPLEX else 1)
    return case


def cases() -> Iterator[Case]:
    draw = Draw(7)
    for dtype in [*FLOATS, *INTEGERS, *COMPLEX]:
        for number in range(5):
            if dtype == "bool" and number < 3:
                continue  # other bytes than 0 and 1 are none
            yield any_bits(dtype, draw) if number < 3 else near(dtype, dtype, (ELEMENTS,), ELEMENTS, draw)
    for dtype_a, dtype_b in MIXED:
        yield near(dtype_a, dtype_b, (ELEMENTS,), ELEMENTS, draw)
        yield near(dtype_a, dtype_b, (37, 29), PERIOD, draw)
        if dtype_a in FLOATS and dtype_b in FLOATS:
            yield special_case(dtype_a, dtype_b, draw)
    for dtype in FLOATS:
        yield special_case(dtype, dtype, draw)
    for dtype_a, dtype_b in [
        ("float32", "float32"),
        ("float32", "bfloat16"),
        ("int8", "int8"),
        ("complex64", "float64"),
    ]:
        for sizes in [(), (1,), (0,), (0, 3), (3, 0), (1, 5), (5, 1), (2, 3, 4), (1, 1)]:
            yield near(dtype_a, dtype_b, sizes, max(1, math.prod(sizes)), draw)
    for dtype_a, dtype_b in LARGE:
        yield large(dtype_a, dtype_b, WIDE, draw)
        yield large(dtype_a, dtype_b, (61, 59), draw)
    yield large("int64", "int32", (61, 59), draw)


# ---- what is right ----


def ulps(mantissa: int, least: int, magnitude: np.ndarray, larger: np.ndarray) -> np.ndarray:
    """Errors in units in the last place of the larger number."""
    exponent = np.maximum(np.frexp(larger)[1] - 1, least)
    return np.where(magnitude > 0, np.ldexp(magnitude, mantissa - exponent), 0.0)


def ulp_bins(errors: np.ndarray, magnitude: np.ndarray) -> str:
    """Bin 0: none; 1: less than one; k: from 2^(k-2) to below 2^(k-1)."""
    bins = np.where(errors < 1, 1, np.frexp(np.maximum(errors, 1))[1] + 1)
    counts = np.bincount(np.where(magnitude == 0, 0, np.minimum(bins, ULP_BINS - 1)).astype(int))
    return ",".join(f"{i}:{n}" for i, n in enumerate(counts) if n) or "-"


def coarser(case: Case) -> Float | None:
    """None: both are integers."""
    kinds = [FLOATS.get(COMPLEX.get(d, d)) for d in (case.dtype_a, case.dtype_b)]
    return min((kind for kind in kinds if kind), key=lambda kind: kind.mantissa, default=None)


def summed(values: np.ndarray) -> np.longdouble:
    return np.sum(values.astype(np.longdouble)) if values.size else np.longdouble(0)


class Digits(float):
    """Of a sum, whose last bits depend on the order."""


def rms(x: np.ndarray) -> float:
    """0 where the squares are beyond a double."""
    parts = np.stack([x.real, x.imag]).astype(np.longdouble)
    finite = np.isfinite(x)
    squares = np.sum(parts[:, finite] ** 2)
    with np.errstate(over="ignore"):
        beyond = not np.isfinite(np.float64(squares))
    return 0.0 if beyond or not finite.any() else float(np.sqrt(squares / finite.sum()))


def spread(
    error: np.ndarray, magnitude: np.ndarray, relative: np.ndarray, a: np.ndarray, b: np.ndarray
) -> dict[str, object]:
    """Sums over the pairs that are compared. `error`: signed, none of complex numbers."""
    count = max(1, len(magnitude))
    wide = magnitude.astype(np.longdouble)
    square = np.sum(wide * wide)
    right: dict[str, object] = {
        "compared": len(magnitude),
        "mean_abs": Digits(summed(magnitude) / count),
        "mean_rel": Digits(summed(relative) / count),
        "mean_error": Digits(summed(error) / count),
        "rmse": Digits(np.sqrt(square / count)),
    }
    parts_a, parts_b = (np.stack([x.real, x.imag]).astype(np.longdouble) for x in (a, b))
    signal, other = np.sum(parts_a**2), np.sum(parts_b**2)
    if signal == 0 or other == 0:
        right["cosine"] = "none"
    else:
        product = np.sum(parts_a * parts_b) / np.sqrt(signal) / np.sqrt(other)
        right["cosine"] = Digits(1.0 if square == 0 else product)
    if square == 0:
        right["sqnr_db"] = math.inf if signal > 0 else "none"
    else:
        with np.errstate(divide="ignore"):
            right["sqnr_db"] = Digits(10 * np.log10(signal / square))
    for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)):
        right[name] = float(np.quantile(magnitude, q, method="inverted_cdf")) if len(magnitude) else 0.0
    return right


def worst_channel(case: Case, error: np.ndarray, any_error: bool) -> dict[str, object]:
    """`error`: of each element, 0 of those that are not compared."""
    if not case.channels or not any_error:
        return {"channels": 0}
    means = np.sum(error.reshape(-1, case.channels).astype(np.longdouble), axis=0) / (case.elements // case.channels)
    order = np.argsort(-np.abs(means), kind="stable")
    best, second = np.abs(means[order[0]]), np.abs(means[order[1]])
    common = {"channels": case.channels, "rms_in_common": Digits(np.sqrt(np.mean(means**2)))}
    if best - second <= 1e-9 * best:
        return common  # either may be named
    return {**common, "worst_channel": f"{order[0]}:{Digits(means[order[0]]):.15g}"}


def text(value: object) -> str:
    if isinstance(value, Digits):
        return f"{value:.15g}"
    if isinstance(value, float):
        return value.hex() if math.isfinite(value) else str(value)
    return str(value)


def element_text(case: Case, index: int) -> str:
    """Position and both values."""
    values = []
    for which, dtype in enumerate((case.dtype_a, case.dtype_b)):
        raw = case.side(which)[index * width_of(dtype) : (index + 1) * width_of(dtype)]
        if dtype in INTEGERS:
            values.append(str(integers_of(dtype, raw)[0]))
        else:
            value = decode(dtype, raw)[0]
            parts = [value.real, value.imag] if dtype in COMPLEX else [value]
            values.append(",".join(text(float(part)) for part in parts))
    position = np.unravel_index(index, case.sizes) if case.sizes else ()
    return f"{','.join(str(int(i)) for i in position) or '-'}|{values[0]}|{values[1]}"


def first_bits(case: Case) -> np.ndarray:
    """Elements of other bits; none where the dtypes differ."""
    if case.dtype_a != case.dtype_b:
        return np.zeros(case.elements, bool)
    width = width_of(case.dtype_a)
    return (case.side(0).reshape(-1, width) != case.side(1).reshape(-1, width)).any(axis=1)


def worst_of(case: Case, special: np.ndarray, magnitude: np.ndarray, relative: np.ndarray) -> dict[str, object]:
    """The first special value that differs, else the first of the largest errors, else the first of other bits."""
    other = first_bits(case)
    if special.any():
        index = int(np.argmax(special))
    elif magnitude.max(initial=0) > 0:
        index = int(np.argmax(magnitude))
    elif other.any():
        index = int(np.argmax(other))
    else:
        return {"worst": "none", "worst_relative": "none"}
    most = relative.max(initial=0)
    return {
        "worst": element_text(case, index),
        "worst_relative": element_text(case, int(np.argmax(relative))) if most > 0 else "none",
    }


def huge(case: Case, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Equal elements that do not count: 2^10 and more, and 2^10 times as large as all that follow down to the largest
    of those that differ, which are at least 16."""
    finite = np.isfinite(a) & np.isfinite(b)
    larger = np.where(finite, np.maximum(np.abs(a), np.abs(b)), 0)
    exponent = np.frexp(larger)[1] - 1
    none = np.zeros(len(a), dtype=bool)
    differing = finite & (a != b)
    if coarser(case) is None or "float8_e8m0fnu" in (case.dtype_a, case.dtype_b) or not differing.any():
        return none
    largest = int(exponent[differing].max())
    for above in sorted({int(e) for e in exponent[larger > 0] if e > largest}):
        if above > largest + 10 and above >= 10:
            others = int(((larger > 0) & (exponent < above)).sum())
            return (larger > 0) & (exponent >= above) if others >= 16 else none
        largest = above
    return none


def reals(case: Case) -> dict[str, object]:
    a, b = decode(case.dtype_a, case.side(0)), decode(case.dtype_b, case.side(1))
    long = any(d in ("int64", "uint64") for d in (case.dtype_a, case.dtype_b))
    if long:  # exact there
        sides = ((case.dtype_a, case.side(0)), (case.dtype_b, case.side(1)))
        a, b = (
            raw.view(d).astype(np.longdouble) if d in INTEGERS else decode(d, raw).astype(np.longdouble)
            for d, raw in sides
        )
    left_out = np.zeros(len(a), dtype=bool) if long else huge(case, a, b)
    finite = np.isfinite(a) & np.isfinite(b) & ~left_out
    with np.errstate(all="ignore"):
        difference, larger = np.abs(a - b), np.maximum(np.abs(a), np.abs(b))
        relative = np.where(difference > 0, difference / larger, 0)
        bound = SCALE * min(rms(a[~left_out]), rms(b[~left_out]))
        close = finite & ((difference - RELATIVE * larger).astype(np.float64) <= bound)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    signed = ~np.isnan(a) & ~np.isnan(b) & (np.signbit(a) != np.signbit(b))
    with np.errstate(all="ignore"):
        error = b.astype(np.longdouble) - a.astype(np.longdouble)
    apart, larger_one = difference[finite].astype(np.float64), larger[finite].astype(np.float64)
    kind = coarser(case)
    errors = apart if kind is None else ulps(kind.mantissa, kind.least, apart, larger_one)
    magnitude = np.where(finite, difference, 0).astype(np.float64)
    return {
        "within": int((magnitude == 0).sum()) if kind is None else int((close | (~finite & same)).sum()),
        "nan_a": int(np.isnan(a).sum()),
        "nan_b": int(np.isnan(b).sum()),
        "inf_a": int(np.isinf(a).sum()),
        "inf_b": int(np.isinf(b).sum()),
        "nan_mismatch": int((np.isnan(a) != np.isnan(b)).sum()),
        "inf_mismatch": int((~finite & (np.isnan(a) == np.isnan(b)) & ~same).sum()),
        "sign_mismatch": int(signed.sum()),
        "zero_sign_mismatch": int((signed & (a == 0) & (b == 0)).sum()),
        "max_abs": float(magnitude.max(initial=0)),
        "max_rel": float(relative[finite].astype(np.float64).max(initial=0)),
        "rms_a": Digits(rms(a[~left_out])),
        "rms_b": Digits(rms(b[~left_out])),
        "max_ulp": float(errors.max(initial=0)),
        "ulp": ulp_bins(errors, apart),
        **spread(error[finite], apart, relative[finite], a[finite], b[finite]),
        **worst_channel(case, np.where(finite, error, 0), bool(magnitude.any())),
        **worst_of(case, ~finite & ~same, magnitude, np.where(finite, relative, 0).astype(np.float64)),
    }


def complexes(case: Case) -> dict[str, object]:
    """Looked at part by part; a part that is special on both sides in the same way differs by nothing."""
    a, b = (decode(d, case.side(i)).astype(np.complex128) for i, d in enumerate((case.dtype_a, case.dtype_b)))
    parts_a, parts_b = a.view(np.float64).reshape(-1, 2), b.view(np.float64).reshape(-1, 2)
    both = np.isfinite(parts_a) & np.isfinite(parts_b)
    same = both | (parts_a == parts_b) | (np.isnan(parts_a) & np.isnan(parts_b))
    alike, finite = same.all(axis=1), both.all(axis=1)
    with np.errstate(all="ignore"):
        gaps = np.where(both, parts_a - parts_b, 0)
        difference = np.hypot(gaps[:, 0], gaps[:, 1])
        larger = np.where(finite, np.maximum(np.hypot(*parts_a.T), np.hypot(*parts_b.T)), 0)
        bound = SCALE * min(rms(a), rms(b))
        within = alike & (difference - RELATIVE * larger <= bound)
    nan_a, nan_b = np.isnan(parts_a).any(axis=1), np.isnan(parts_b).any(axis=1)
    signed = ~np.isnan(parts_a) & ~np.isnan(parts_b) & (np.signbit(parts_a) != np.signbit(parts_b))
    magnitude = np.where(alike, difference, 0)
    right: dict[str, object] = {
        "within": int(within.sum()),
        "nan_a": int(nan_a.sum()),
        "nan_b": int(nan_b.sum()),
        "inf_a": int(np.isinf(parts_a).any(axis=1).sum()),
        "inf_b": int(np.isinf(parts_b).any(axis=1).sum()),
        "nan_mismatch": int((~alike & (nan_a != nan_b)).sum()),
        "inf_mismatch": int((~alike & (nan_a == nan_b)).sum()),
        "sign_mismatch": int(signed.sum()),
        "zero_sign_mismatch": int((signed & (parts_a == 0) & (parts_b == 0)).sum()),
        "max_abs": float(magnitude.max(initial=0)),
        "rms_a": Digits(rms(a)),
        "rms_b": Digits(rms(b)),
    }
    if (finite != alike).any():
        return right  # sums over numbers of which one part is known
    with np.errstate(all="ignore"):
        relative = np.where(finite & (difference > 0), difference / larger, 0)
    kind = coarser(case)
    errors = ulps(kind.mantissa, kind.least, difference[finite], larger[finite])
    none = np.zeros(int(finite.sum()))
    right |= {
        "max_rel": float(relative.max(initial=0)),
        "max_ulp": float(errors.max(initial=0)),
        "ulp": ulp_bins(errors, difference[finite]),
    }
    right |= spread(none, difference[finite], relative[finite], a[finite], b[finite])
    return right | worst_of(case, ~alike, magnitude, relative)


def integers(case: Case) -> dict[str, object]:
    """Of more than 32 bits, exactly."""
    a, b = integers_of(case.dtype_a, case.side(0)), integers_of(case.dtype_b, case.side(1))
    differences = [abs(x - y) for x, y in zip(a, b, strict=True)]
    relatives = [d / max(abs(x), abs(y)) if d else 0.0 for d, x, y in zip(differences, a, b, strict=True)]
    count = max(1, len(a))
    order = np.array([0] * len(a), dtype=bool)
    right: dict[str, object] = {
        "within": differences.count(0),
        "compared": len(a),
        "sign_mismatch": sum((x < 0) != (y < 0) for x, y in zip(a, b, strict=True)),
        "max_abs_text": str(max(differences, default=0)),
        "max_rel": max(relatives, default=0.0),
        "max_ulp": float(max(differences, default=0)),
        "mean_abs": Digits(sum(differences) / count),
        "mean_error": Digits(sum(y - x for x, y in zip(a, b, strict=True)) / count),
        "rmse": Digits(math.sqrt(sum(d * d for d in differences) / count)),
    }
    exact = np.array([float(d) if float(d) == d else np.nan for d in differences])
    if not np.isnan(exact).any():
        right["ulp"] = ulp_bins(exact, exact)
    most = max(differences, default=0)
    where = np.array([float(d == most and most > 0) for d in differences])
    right |= worst_of(case, order, where, np.array(relatives))
    error = np.array([float(y - x) for x, y in zip(a, b, strict=True)])
    return right | worst_channel(case, error, most > 0)


def right_of(case: Case) -> dict[str, object]:
    dtypes = (case.dtype_a, case.dtype_b)
    if any(d in COMPLEX for d in dtypes):
        right = complexes(case)
    elif all(d in INTEGERS for d in dtypes) and any(d in ("int64", "uint64") for d in dtypes):
        right = integers(case)
    else:
        right = reals(case)
    equal = 0 if dtypes[0] != dtypes[1] else case.elements - int(first_bits(case).sum())
    return {"elements": case.elements, "bits_equal": equal, **right}


def line_of(case: Case) -> str:
    fields = [case.dtype_a, case.dtype_b, "x".join(map(str, case.sizes)) or "-"]
    fields += [(raw if case.elements else b"").hex() or "-" for raw in (case.bytes_a, case.bytes_b)]
    fields += [text(RELATIVE), text(SCALE)]
    fields += [f"put={index}:{a.hex()}:{b.hex()}" for index, (a, b) in case.puts.items()]
    fields += [f"{name}={text(value)}" for name, value in right_of(case).items()]
    return " ".join(fields) + "\n"


def main(arguments: list[str]) -> int:
    made = "".join(line_of(case) for case in cases())
    if not arguments:
        sys.stdout.write(made)
        return 0
    option, file = arguments
    if option != "--check":
        raise SystemExit(__doc__)
    kept = Path(file).read_text(encoding="ascii")
    if kept == made:
        return 0
    pairs = itertools.zip_longest(kept.splitlines(), made.splitlines(), fillvalue="")
    number, (old, new) = next((i, pair) for i, pair in enumerate(pairs, start=1) if pair[0] != pair[1])
    words = next((pair for pair in itertools.zip_longest(old.split(), new.split()) if pair[0] != pair[1]), ("", ""))
    print(f"{file}: line {number}: {words[0]} should be {words[1]}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
