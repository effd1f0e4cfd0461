"""The C++ example on one, two and four ranks, forward and backward: one computation, whatever it is split over; and a
wrong attention on one rank is found in a comparison with a run that is split otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import BUILD, TDUMP_RUN, Run, mpirun
from diffing import diff, rows, said, where

PROGRAM = BUILD / "bin" / "examples" / "tp_transformer"
STEPS = 2
ATTENTION = "layers.1.attention/aten::_scaled_dot_product_flash_attention_for_cpu"
CONFIG = """
steps: 0-1
collect: {aten: on}
capture:
  - {op: scaled_dot_product, role: [input, output]}
  - {op: '.', level: off}
  - {role: [param], steps: 0}
  - {role: [input, output, grad_input, grad_output, param_grad]}
"""

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="built without examples or MPI")


def capture(directory: Path, ranks: int, *arguments: str) -> Path:
    config = directory.parent / "proof.yaml"
    config.write_text(CONFIG)
    words = [TDUMP_RUN, "-c", config, "-o", directory, "--", PROGRAM, "--steps", STEPS, "--rate", 0, *arguments]
    done = mpirun(ranks, list(map(str, words)), directory.parent)
    assert done.returncode == 0 and "COMPLETE" in done.stderr, done.stderr
    return directory


@pytest.fixture(scope="module")
def worlds(tmp_path_factory) -> dict[int, Path]:
    cwd = tmp_path_factory.mktemp("worlds")
    return {ranks: capture(cwd / f"world{ranks}", ranks) for ranks in (1, 2, 4)}


def parts(run: Path, ranks: int, key: str) -> list[torch.Tensor]:
    import tdump

    return [tdump.load_pass(Run(run).passes(rank)[0])[key] for rank in range(ranks)]


@pytest.mark.parametrize(
    ("value", "why"),
    [("1:0:0", "the rank is not one of 0..0"), ("0:4:0", "the layer is not one of 0..3"), ("0:1", "expected RANK:")],
)
def test_a_wrong_option_is_told(value, why, tmp_path):
    done = mpirun(1, [str(PROGRAM), "--wrong-scale", value], tmp_path)
    assert done.returncode == 2 and f"--wrong-scale '{value}': {why}" in done.stderr


@pytest.mark.parametrize(
    ("key", "dim"),
    [
        ("layers.0.attention.query@param#weight", 0),
        ("layers.3.mlp.up@param#weight", 0),
        ("layers.0.attention.output@param#weight", 1),
        ("layers.3.mlp.down@param#weight", 1),
    ],
)
def test_every_world_starts_from_the_same_weights(worlds, key, dim):
    """Not tdump-diff's word for it: the parts, put together by torch."""
    (whole,) = parts(worlds[1], 1, key)
    for ranks in (2, 4):
        split = parts(worlds[ranks], ranks, key)
        assert split[0].shape[dim] * ranks == whole.shape[dim]
        assert torch.equal(torch.cat(split, dim), whole)


@pytest.mark.parametrize(("a", "b"), [(1, 2), (1, 4), (2, 4), (4, 1)])
def test_worlds_are_the_same_computation(worlds, a, b, tmp_path):
    report = diff(worlds[a], worlds[b], status=0)
    counts = report["counts"]
    assert report["verdict"] == "same" and counts["failing"] == 0 and counts["allowed"] == 0
    assert counts["unpaired_a"] == counts["unpaired_b"] == counts["not_judged"] == 0
    assert report["parameters"]["compared"] > 40 and report["parameters"]["differing_names"] == 0
    assert counts["bitwise_equal"] < counts["paired"]  # sums in another order: not a comparison of nothing
    assert report["inputs"]["compared"] == report["inputs"]["equal"] == STEPS
    found = rows(worlds[a], worlds[b], tmp_path / "rows.jsonl")
    pairs = [row for row in found if row["type"] == "pair"]
    assert len(pairs) == counts["paired"] == len({(row["step"], row["key"]) for row in pairs})
    assert {row["role"] for row in pairs} == {"param", "param_grad", "input", "output", "grad_input", "grad_output"}
    assert {row["step"] for row in pairs} == set(range(STEPS))
    for row in pairs:  # in the shape of the whole, on both sides
        assert row["shape_a"] == row["shape_b"], row["key"]
        assert row["evidence"] == "hash" or row["bound"], row["key"]
    shapes = {row["key"]: row["shape_b"] for row in pairs if row["step"] == 0}
    assert shapes["layers.0.attention.query@output#"] == [4, 64, 64]
    assert shapes["layers.0.mlp.up@grad_output#~b"] == [4, 64, 256]
    assert shapes["layers.0.mlp.down@param_grad#weight~b"] == [64, 256]
    assert shapes["layers.0.mlp.down/partial@output#"] == [4, 64, 64]


def test_the_report_says_how_parts_were_put_together(worlds):
    text = said(worlds[1], worlds[4], status=0)
    assert "SAME" in text and "inferred" in text and "partial" in text and "replicated" in text


@pytest.mark.parametrize(("ranks", "reference"), [(2, 1), (4, 1), (4, 2), (4, 4)])
def test_a_wrong_attention_on_one_rank_is_named(worlds, ranks, reference, tmp_path):
    """In step 1, on the last rank but one, without any wrong parameter."""
    rank = ranks - 2
    faulty = capture(tmp_path / "faulty", ranks, "--wrong-scale", f"{rank}:1:1")
    report = diff(worlds[reference], faulty, status=1)
    assert where(report) == (ATTENTION, rank, 1)
    assert report["origin"]["kind"] == "operator" and report["origin"]["certain"]
    assert report["origin"]["parameter"] == "" and report["parameters"]["differing_names"] == 0
    assert diff(worlds[reference], faulty, "--steps", "0", status=0)["verdict"] == "same"


def test_a_wrong_weight_of_one_ranks_attention_is_named(worlds, tmp_path):
    query = "layers.2.attention.query"
    faulty = capture(tmp_path / "faulty", 4, "--fault", f"3:{query}.weight:25")
    report = diff(worlds[1], faulty, status=1)
    assert where(report) == (query, 3, 0)
    assert report["origin"]["parameter"] == f"{query}.weight" and report["origin"]["certain"]
    assert [(d["name"], d["rank"]) for d in report["parameters"]["differing"]] == [(f"{query}.weight", 3)]
    # Without the weights: the operator's input agrees, its output does not.
    outputs = diff(worlds[1], faulty, "--select", "^(?!.*\\.(weight|bias)$)", status=1)
    assert where(outputs) == (query, 3, 0) and outputs["origin"]["certain"]
