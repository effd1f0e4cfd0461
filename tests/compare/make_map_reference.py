"""Writes map_reference.txt: fused projections as frameworks build them, and the parts they were built from.

    python tests/compare/make_map_reference.py > tests/compare/map_reference.txt

One line a case: rule, shape, dimension, lengths of q and of k on this rank, length of a head, the fused values, then the
parts ("shape:values"). All numbers are integers; every value names its place in the projection it came from.
"""

from __future__ import annotations

import itertools

import numpy as np


def numbered(first: int, *shape: int) -> np.ndarray:
    return first + np.arange(np.prod(shape)).reshape(shape)


def text(array: np.ndarray) -> str:
    return "x".join(map(str, array.shape)) + ":" + ",".join(map(str, array.ravel().tolist()))


def line(rule: str, axis: int, lengths: tuple[int, int, int], fused: np.ndarray, parts: list[np.ndarray]) -> None:
    print(rule, axis, *lengths, text(fused), *[text(part) for part in parts])


def shard(array: np.ndarray, rank: int, ranks: int, axis: int) -> np.ndarray:
    return np.split(array, ranks, axis=axis)[rank]


def groups(q: np.ndarray, k: np.ndarray, v: np.ndarray, kv_heads: int, head: int) -> np.ndarray:
    """Megatron-Core's order: the queries of each group of heads, their k, their v."""
    pieces = []
    per_group = q.shape[0] // kv_heads
    for group in range(kv_heads):
        pieces.append(q[group * per_group : (group + 1) * per_group])
        pieces.append(k[group * head : (group + 1) * head])
        pieces.append(v[group * head : (group + 1) * head])
    return np.concatenate(pieces)


def qkv_cases() -> None:
    for heads, kv_heads, head, ranks in [
        (4, 2, 2, 1),
        (4, 2, 2, 2),
        (4, 4, 3, 2),
        (6, 2, 1, 2),
        (8, 1, 2, 1),
        (3, 3, 2, 3),
    ]:
        for inner in ([], [3]):  # a bias, a weight
            q, k, v = (
                numbered(first, count * head, *inner)
                for first, count in [(1000, heads), (2000, kv_heads), (3000, kv_heads)]
            )
            for rank in range(ranks):
                own = [shard(part, rank, ranks, 0) for part in (q, k, v)]
                lengths = (own[0].shape[0], own[1].shape[0], head)
                line("qkv", 0, lengths, np.concatenate(own), own)
                line("qkv_groups", 0, lengths, groups(*own, kv_heads // ranks, head), own)
                # The output for two tokens of one sequence: the projection is the last dimension. And a weight that is
                # kept transposed.
                wide = [np.stack([part.reshape(part.shape[0], -1)[:, 0] + 100 * t for t in range(2)]) for part in own]
                fused = groups(*[part.T for part in wide], kv_heads // ranks, head).T
                line("qkv_groups", 2, lengths, fused[:, None], [part[:, None] for part in wide])
                line("qkv", 1, lengths, np.concatenate(wide, axis=1), wide)


def equal_cases() -> None:
    for width, inner, count in itertools.product([1, 4], [1, 3], [2, 3]):
        parts = [numbered(1000 * (i + 1), width, inner) for i in range(count)]
        line("equal", 0, (0, 0, 0), np.concatenate(parts), parts)
        line("equal", 1, (0, 0, 0), np.concatenate([part.T for part in parts], axis=1), [part.T for part in parts])
    experts = [numbered(1000, 2, 3, 2), numbered(2000, 2, 3, 2)]  # gate and up of two experts
    line("equal", 1, (0, 0, 0), np.concatenate(experts, axis=1), experts)


if __name__ == "__main__":
    qkv_cases()
    equal_cases()
