"""Writes layout_cases.txt: shards of tensors whose whole is known, for layout_cases_test.cc.

A dims string is read by the few lines of `parse` below, which share nothing with settings/dims_parser.cc; NumPy then
gives every rank the elements that the string says. The whole tensor holds 0, 1, 2, ... in row-major order, so that a
shard is a list of positions. One case a line:

    topology | dims | tables | dtype | shape of the whole | copies | rank : shape : elements | ...

Elements are runs: 4+3 is 4 5 6, 4+3*2 is 4 6 8. `copies`: how many ranks hold each shard.

    python tests/compare/make_layout_cases.py > tests/compare/layout_cases.txt
"""

from __future__ import annotations

import itertools
import re
import sys
from dataclasses import dataclass, field

import numpy as np

GARBAGE = 30000  # stands in padding


@dataclass
class Use:
    axis: str
    kind: str = "contiguous"
    block: int = 1
    sizes: str = ""
    packed: str = ""


@dataclass
class Name:
    name: str
    size: int | None
    uses: list[Use]


@dataclass
class Dims:
    groups: list[tuple[list[Name], list[Use]]] = field(default_factory=list)
    partial: list[str] = field(default_factory=list)
    mean: list[str] = field(default_factory=list)
    replicated: list[str] = field(default_factory=list)


def parse_uses(text: str | None, dims: Dims) -> list[Use]:
    uses = []
    for item in (text or "").strip("[]").split(","):
        if not item:
            continue
        axis, *qualifiers = item.split(":")
        use, whole = Use(axis), False
        for qualifier in qualifiers:
            word, _, value = qualifier.partition("=")
            if word == "mean":
                dims.mean.append(axis)
            elif word in ("partial", "replicated"):
                getattr(dims, word).append(axis)
                whole = True
            elif word in ("sizes", "packed"):
                setattr(use, word, value)
            else:
                use.kind, use.block = word, int(value or 1)
        if not whole:
            uses.append(use)
    return uses


def parse(text: str) -> Dims:
    dims = Dims()
    name = r"(\w+)(?:=(\d+))?(\[[^\]]*\])?"
    for match in re.finditer(rf"\(([^)]*)\)(\[[^\]]*\])?|(?:{name})|\.\.\.", text):
        inside, fused_uses, word, size, uses = match.groups()
        if match.group() == "...":
            dims.groups.append(([], []))
        elif word in ("partial", "replicated"):
            axes = uses.strip("[]").split(",")
            getattr(dims, word).extend(axis.removesuffix(":mean") for axis in axes)
            dims.mean += [axis.removesuffix(":mean") for axis in axes if axis.endswith(":mean")]
        elif inside is None:
            dims.groups.append(([Name(word, int(size) if size else None, parse_uses(uses, dims))], []))
        else:
            parts = [Name(n, int(s) if s else None, parse_uses(u, dims)) for n, s, u in re.findall(name, inside)]
            dims.groups.append((parts, parse_uses(fused_uses, dims)))
    return dims


class Case:
    """One whole tensor and its shards. `shape`: of the names of `text`, "..." standing for two of size 2."""

    def __init__(self, topology: dict[str, int], text: str, shape: list[int], seed: int, style: str, dtype: str):
        self.topology, self.text, self.dtype, self.style = topology, text, dtype, style
        self.rng = np.random.default_rng(seed)
        self.dims = parse(text)
        self.tables: dict[str, list[int]] = {}
        self.cuts: dict[tuple, np.ndarray] = {}
        self.shape = shape
        self.ranks = int(np.prod(list(topology.values())))
        self.shards = [self.shard(rank) for rank in range(self.ranks)]

    def coordinates(self, rank: int) -> dict[str, int]:
        at = {}
        for axis, size in self.topology.items():  # fastest first
            at[axis], rank = rank % size, rank // size
        return at

    def lengths(self, n: int, total: int, key: tuple) -> list[int]:
        """How long the n contiguous pieces are; the same for all ranks that ask under one key."""
        if self.style == "even":
            return [len(piece) for piece in np.array_split(np.arange(total), n)]
        if key not in self.cuts:
            cuts = np.sort(self.rng.integers(0, total + 1, n - 1))
            self.cuts[key] = np.diff(np.concatenate([[0], cuts, [total]]))
        return list(self.cuts[key])

    def chunks(self, index: np.ndarray, n: int) -> list[np.ndarray]:
        if self.style != "long":
            return np.array_split(index, n)
        step = -(-len(index) // n)  # torch.chunk, with empty pieces to make n
        return [index[step * i : step * (i + 1)] for i in range(n)]

    def sequences(self, use: Use, total: int) -> list[int]:
        if not use.packed:
            return [total]
        if not use.packed.startswith("@"):
            return [int(n) for n in use.packed.split("+")]
        if use.packed not in self.tables:
            cuts = np.sort(self.rng.integers(0, total + 1, 2))
            self.tables[use.packed] = [int(n) for n in np.diff(np.concatenate([[0], cuts, [total]]))]
        return self.tables[use.packed]

    def take(self, index: np.ndarray, use: Use, n: int, i: int, key: tuple) -> np.ndarray:
        if use.kind == "contiguous" and not use.packed:
            cuts = np.cumsum([0, *self.lengths(n, len(index), key)])
            return index[cuts[i] : cuts[i + 1]]
        parts, begin = [], 0
        for length in self.sequences(use, len(index)):
            part, begin = index[begin : begin + length], begin + length
            if use.kind == "zigzag":
                pieces = self.chunks(part, 2 * n)
                parts += [pieces[i], pieces[2 * n - 1 - i]]
            elif use.kind == "striped":
                parts.append(part[(np.arange(length) // use.block) % n == i])
            else:
                parts.append(self.chunks(part, n)[i])
        return np.concatenate(parts)

    def held(self, uses: list[Use], size: int, at: dict[str, int], name: str) -> np.ndarray:
        """Positions along a dimension, outermost split first; -1 is padding."""
        index, key = np.arange(size), (name,)
        for use in uses:
            n = self.topology[use.axis]
            taken = self.take(index, use, n, at[use.axis], key)
            if use.sizes:
                self.tables[use.sizes] = [len(self.take(index, use, n, i, key)) for i in range(n)]
                longest = max(self.tables[use.sizes]) + 1
                taken = np.concatenate([taken, np.full(longest - len(taken), -1)])
            index, key = taken, (*key, at[use.axis])
        return index

    def shard(self, rank: int) -> np.ndarray:
        at = self.coordinates(rank)
        atoms, fused, sizes = [], [], iter(self.shape)
        for parts, uses in self.dims.groups:
            if not parts:  # "..."
                atoms += [np.arange(next(sizes)), np.arange(next(sizes))]
                fused += [1, 1]
            elif uses:
                whole = int(np.prod([next(sizes) for _ in parts]))
                atoms.append(self.held(uses, whole, at, parts[0].name))
                fused.append(1)
            else:
                for part in parts:
                    size = next(sizes)
                    index = self.held(part.uses, size, at, part.name)
                    if part.size and len(parts) == 1 and self.style == "padded":
                        index = self.padded(part, size, at)
                    atoms.append(index)
                fused.append(len(parts))
        extent = [a for a in self.atom_sizes()]
        whole = np.arange(int(np.prod(extent))).reshape(extent)
        picked = whole[np.ix_(*[np.maximum(a, 0) for a in atoms])] if atoms else whole
        for axis, index in enumerate(atoms):
            np.moveaxis(picked, axis, 0)[index < 0] = GARBAGE
        shape, left = [], list(picked.shape)
        for count in fused:
            shape.append(int(np.prod(left[:count])))
            left = left[count:]
        return self.summand(picked.reshape(shape), at, rank)

    def padded(self, part: Name, size: int, at: dict[str, int]) -> np.ndarray:
        """Rows are padded to a multiple of 4 a rank, then split evenly."""
        n = int(np.prod([self.topology[use.axis] for use in part.uses]))
        rows = np.full(-(-size // (4 * n)) * 4 * n, -1)
        rows[:size] = np.arange(size)
        for use in part.uses:
            rows = np.split(rows, self.topology[use.axis])[at[use.axis]]
        return rows

    def summand(self, whole: np.ndarray, at: dict[str, int], rank: int) -> np.ndarray:
        """What the rank adds to a partial sum: numbers that depend on its place, the last one the rest. Where the mean
        over an axis counts they add up to as many times the whole."""
        whole = whole * int(np.prod([self.topology[axis] for axis in self.dims.mean]))
        places = [self.topology[axis] for axis in self.dims.partial]
        count = int(np.prod(places))
        if count == 1:
            return whole
        place = int(np.ravel_multi_index([at[axis] for axis in self.dims.partial], places))
        parts = [(-1) ** k * whole + 5 * k + 1 for k in range(count - 1)]
        return parts[place] if place < count - 1 else whole - sum(parts)

    def atom_sizes(self) -> list[int]:
        sizes, atoms = iter(self.shape), []
        for parts, uses in self.dims.groups:
            if not parts:
                atoms += [next(sizes), next(sizes)]
            elif uses:
                atoms.append(int(np.prod([next(sizes) for _ in parts])))
            else:
                atoms += [next(sizes) for _ in parts]
        return atoms

    def whole_shape(self) -> list[int]:
        sizes, shape = iter(self.shape), []
        for parts, _ in self.dims.groups:
            if not parts:
                shape += [next(sizes), next(sizes)]
            else:
                shape.append(int(np.prod([next(sizes) for _ in parts])))
        return shape

    def copies(self) -> int:
        used = {use.axis for parts, uses in self.dims.groups for use in uses + [u for p in parts for u in p.uses]}
        used |= set(self.dims.partial)
        return int(np.prod([size for axis, size in self.topology.items() if axis not in used]))

    def line(self) -> str:
        fields = [
            " ".join(f"{axis}={size}" for axis, size in self.topology.items()),
            self.text,
            " ".join(f"{name}={'+'.join(map(str, values))}" for name, values in sorted(self.tables.items())),
            self.dtype,
            " ".join(map(str, self.whole_shape())),
            str(self.copies()),
        ]
        for rank, shard in enumerate(self.shards):
            fields.append(f"{rank}:{' '.join(map(str, shard.shape))}:{runs(shard.ravel().tolist())}")
        return "|".join(fields)


def runs(numbers: list[int]) -> str:
    items, i = [], 0
    while i < len(numbers):
        n, step = 1, numbers[i + 1] - numbers[i] if i + 1 < len(numbers) else 1
        while i + n < len(numbers) and numbers[i + n] == numbers[i] + n * step:
            n += 1
        if n == 2 and step != 1:
            n = 1
        items.append(str(numbers[i]) if n == 1 else f"{numbers[i]}+{n}" + (f"*{step}" if step != 1 else ""))
        i += n
    return " ".join(items)


QUALIFIERS = ["", ":contiguous", ":zigzag", ":striped", ":striped=2", ":sizes=@counts", ":packed=@lengths"]
QUALIFIERS += [":zigzag:packed=@lengths", ":striped:packed=@lengths", ":partial", ":replicated"]


def texts_and_shapes():
    """(topology, dims, sizes of the names, style): every qualifier on every dimension, and their products."""
    for n, position, qualifier in itertools.product((2, 3, 4), range(3), QUALIFIERS):
        names = ["b", "s", "h"]
        names[position] += f"[tp{qualifier}]"
        shape = [2, 2, 2]
        shape[position] = 24
        yield {"tp": n}, " ".join(names), shape, "even"
        uneven = list(shape)
        uneven[position] = 2 * n + 3 + position
        yield {"tp": n}, " ".join(names), uneven, "long" if "zigzag" in qualifier else "uneven"
    for outer, inner in itertools.product(QUALIFIERS, QUALIFIERS):
        inner = inner.replace("counts", "more").replace("lengths", "more_lengths")
        yield {"tp": 2, "cp": 2}, f"b s[cp{outer}] h[tp{inner}]", [1, 9, 8], "uneven"
        # One dimension, cp outside: what tables say of the inner axis would have to differ by the place on cp.
        if "more" not in inner and "zigzag" not in inner and "striped" not in inner:
            yield {"tp": 2, "cp": 3}, f"s[cp{outer},tp{inner}] h", [13, 2], "uneven"
        if "more" not in inner:
            yield {"tp": 2, "cp": 2}, f"s[cp{outer},tp{inner}] h", [16, 3], "even"
    for qualifier, style in itertools.product(QUALIFIERS[:9], ("even", "uneven")):
        yield {"cp": 2}, f"(b=3 s[cp{qualifier}]) h", [3, 8, 2], style
        if "sizes" not in qualifier and "packed" not in qualifier:  # all ranks must hold as much of s
            yield {"cp": 2, "dp": 2}, f"h (b[dp] s=8[cp{qualifier}])", [2, 2, 8], "even"
        yield {"cp": 2, "tp": 2}, f"(b s)[cp{qualifier}] h[tp]", [2, 7, 4], style
        yield {"tp": 2, "dp": 2}, f"... h[tp{qualifier}]", [2, 2, 9], style
        yield {"tp": 2}, f"(qkv=3 h[tp{qualifier}]) d", [3, 4, 2], style
        yield {"cp": 2, "tp": 2, "dp": 2}, f"b[dp] s[cp{qualifier}] h partial[tp]", [3, 6, 2], style
        yield {"cp": 2, "ep": 2, "dp": 2}, f"t[dp,ep{qualifier}] h replicated[cp]", [8, 2], "even"
        yield {"pp": 2, "tp": 2}, f"s h[tp{qualifier}] replicated[pp]", [2, 9], style
    for n, size in itertools.product((2, 3, 4), (1, 5, 16, 23)):
        yield {"tp": n, "dp": 2}, f"v={size}[tp] h", [size, 2], "padded"
        yield {"tp": n}, f"b v={size}[tp]", [2, size], "padded"
        yield {"tp": n}, f"v={size}[tp]", [size], "padded"
    for n in (1, 2, 3, 5):
        yield {"tp": n}, "partial[tp]", [], "even"
        yield {"tp": n}, "h[tp]", [0], "even"
        yield {"ep": n, "dp": 2}, "t[ep] h partial[dp]", [6, 3], "uneven"
        yield {"dp": n, "tp": 2}, "h partial[dp,tp]", [6], "even"
        yield {"dp": n, "tp": 2}, "h[tp] replicated[dp]", [7], "uneven"
        yield {"tp": n}, "t[tp:zigzag:packed=8+12+4] h", [24, 2], "even"
        yield {"tp": n}, "t[tp:packed=5+0+7] h", [12, 2], "even"
    axes = ["dp", "cp", "tp"]
    rng = np.random.default_rng(7)
    for _ in range(120):  # three axes anywhere, in any order
        names = {name: [] for name in "bsh"}
        tail = ""
        for axis in rng.permutation(axes):
            kind = int(rng.integers(0, 6))
            if kind == 4:
                tail += f" partial[{axis}]" if "partial" not in tail else ""
            elif kind < 4:
                names["bsh"[rng.integers(0, 3)]].append(str(axis) + ("", ":zigzag", ":striped", "")[kind])
        text = " ".join(name + (f"[{','.join(uses)}]" if uses else "") for name, uses in names.items())
        yield {"tp": 2, "cp": 2, "dp": int(rng.integers(1, 4))}, text + tail, [4, 8, 3], "even"
    for n, style in itertools.product((1, 2, 3, 5), ("even", "uneven")):  # means, of floats
        yield {"dp": n}, "b h partial[dp:mean]", [2, 7], style
        yield {"dp": n, "tp": 2}, "b h[tp] partial[dp:mean]", [2, 7], style
        yield {"tp": 2, "dp": n}, "b[tp:partial] h[dp:partial:mean]", [3, 5], style
        yield {"cp": 2, "dp": n, "tp": 2}, "s[cp:zigzag] h partial[tp,dp:mean]", [9, 2], style
        yield {"cp": 2, "dp": n}, "h partial[cp:mean,dp:mean]", [6], style
        yield {"cp": 2, "dp": n}, "h partial[dp:mean] replicated[cp]", [6], style


def main() -> None:
    dtypes = ["int32", "int16", "float32", "int64", "float64"]
    seen = set()
    for seed, (topology, text, shape, style) in enumerate(texts_and_shapes()):
        dtype = dtypes[seed % len(dtypes)]
        if ":mean" in text:
            dtype = "float32" if seed % 2 else "float64"
        line = Case(topology, text, shape, seed, style, dtype).line()
        key = line.split("|")
        if (identity := (key[0], key[1], key[2], key[4])) in seen:
            continue
        seen.add(identity)
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
