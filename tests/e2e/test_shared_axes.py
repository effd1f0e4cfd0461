"""Two jobs that have axes in common, of which nobody says how they share tensors: what their ranks kept is put together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from diffing import diff, where

# (dp, tp): the batch is split over dp, the features that come out over tp.
SIZES = [
    ((2, 1), (2, 1)),
    ((1, 2), (1, 2)),
    ((2, 2), (2, 2)),
    ((2, 1), (2, 2)),
    ((1, 2), (2, 2)),
    ((2, 2), (2, 4)),
    ((2, 2), (4, 2)),
    ((2, 2), (4, 4)),
    ((1, 4), (2, 2)),
    ((2, 1), (1, 2)),
]


def held(dp: int, tp: int) -> list[dict[str, np.ndarray]]:
    """What every rank holds of one layer; tp is the fastest axis."""
    random = np.random.default_rng(7)
    x, w = random.standard_normal((8, 6)), random.standard_normal((12, 6))
    columns = np.split(w, tp)
    return [
        {"fc@input#0": rows, "fc@output#": rows @ column.T, "fc@param#weight": column}
        for rows in np.split(x, dp)
        for column in columns
    ]


def save(folder: Path, ranks: list[dict[str, np.ndarray]]) -> Path:
    folder.mkdir()
    for rank, tensors in enumerate(ranks):
        np.savez(folder / f"step0_rank{rank}.npz", **tensors)
    return folder


def options(a: tuple[int, int], b: tuple[int, int]) -> list[str]:
    return [word for side, (dp, tp) in (("A", a), ("B", b)) for word in ("--topology", f"{side}:tp={tp},dp={dp}")]


@pytest.mark.parametrize(("a", "b"), SIZES)
def test_a_fault_free_pair_is_the_same(tmp_path, a, b):
    left, right = save(tmp_path / "a", held(*a)), save(tmp_path / "b", held(*b))
    for first, second, sizes in ((left, right, (a, b)), (right, left, (b, a))):
        counts = diff(first, second, *options(*sizes), status=0)["counts"]
        assert (counts["paired"], counts["judged"], counts["failing"]) == (3, 3, 0), counts


@pytest.mark.parametrize(("a", "b"), SIZES)
def test_the_rank_at_fault_is_named(tmp_path, a, b):
    ranks = held(*b)
    last = len(ranks) - 1
    ranks[last]["fc@output#"][0, 0] += 1e-3
    left, right = save(tmp_path / "a", held(*a)), save(tmp_path / "b", ranks)
    report = diff(left, right, *options(a, b), status=1)
    assert report["counts"]["failing"] == 1
    assert where(report) == ("fc", last, 0)
