"""Data parallel training against one process with the whole batch: gradients before and after they are reduced."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import captured
from diffing import diff, rows, said

JOB = Path(__file__).parent / "jobs" / "data_parallel.py"
CONFIG = "version: 1\ncapture: [{role: [param_grad, output], level: full}]\n"
MEAN = "B:@param_grad: ... partial[dp:mean]"
PARAMETERS = 4
STEPS = 2


def run(directory: Path, ranks: int, config: str = CONFIG) -> Path:
    where = directory / f"ranks{ranks}"
    return captured(ranks, [sys.executable, str(JOB), str(where / "store")], config, where)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[Path, Path]:
    directory = tmp_path_factory.mktemp("data_parallel")
    return run(directory, 1), run(directory, 2)


def gradients(found: list[dict]) -> list[dict]:
    return [row for row in found if row["type"] == "pair" and row["role"] == "param_grad"]


def reduced(found: list[dict]) -> list[dict]:
    return [row for row in found if row["type"] == "pair" and "reduced" in row["name"]]


def test_gradients_before_they_are_reduced_are_the_mean(runs, tmp_path):
    options = ["--topology", "B:dp=2", "--dims", MEAN]
    report = diff(*runs, *options, status=0)
    assert report["verdict"] == "same"
    found = rows(*runs, tmp_path / "rows", *options)
    assert len(gradients(found)) == PARAMETERS * STEPS
    assert {row["layout_b"] for row in gradients(found)} == {"mean of 2 partials on dp (--dims)"}
    assert len(reduced(found)) == PARAMETERS * STEPS
    assert all("replicated on 2 ranks" in row["layout_b"] for row in reduced(found))


def test_the_mean_is_never_inferred_but_named(runs, tmp_path):
    text = " ".join(said(*runs, "--topology", "B:dp=2", status=1).split())
    assert "the mean of what the ranks of B hold agrees with A" in text
    assert f"--dims '{MEAN}'" in text
    found = gradients(rows(*runs, tmp_path / "rows", "--topology", "B:dp=2"))
    assert all(row["fails"] and any(MEAN in note for note in row["notes"]) for row in found)
    summed = ["--topology", "B:dp=2", "--dims", "B:@param_grad: ... partial[dp]"]
    text = " ".join(said(*runs, *summed, status=1).split())
    assert "B is 2 times A, within" in text
    assert f"--dims '{MEAN}'" in text


def test_a_rule_of_the_capture_may_say_it(tmp_path):
    annotated = CONFIG.replace("[{role", "[{role: param_grad, level: full, dims: '... partial[dp:mean]'}, {role", 1)
    sides = run(tmp_path / "a", 1), run(tmp_path / "b", 2, annotated)
    found = rows(*sides, tmp_path / "rows", "--topology", "B:dp=2")
    assert {row["layout_b"] for row in gradients(found)} == {"mean of 2 partials on dp (annotated)"}
    assert not any(row["fails"] for row in found if row["type"] == "pair")
