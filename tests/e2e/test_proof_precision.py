"""MiniLM in float32 against bfloat16 and simulated FP8: the same for --compute, and one wrong LayerNorm is found all the
same. Step by step over sentences: what holds for one holds for each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import SOURCE, TDUMP_RUN, execute
from diffing import diff, said, where

JOB = SOURCE / "tests" / "e2e" / "jobs" / "lossy_minilm.py"
NORM = "encoder.layer.2.attention.output.LayerNorm"
NORMS = [
    "embeddings.LayerNorm",
    *(f"encoder.layer.{i}.{norm}.LayerNorm" for i in range(6) for norm in ("attention.output", "output")),
]
# In the last layer noise makes as much in FP8, of one or of both norms, by the processor (docs/compare.md).
FACTOR, FACTOR_OF_LAST = 1.05, 1.07
INPUTS = 20
WRONG_INPUTS = 10
LOSSY = {"bfloat16": "bf16", "fp8": "fp8"}  # precision of the job: --compute
# Without the hashes of parameters that a capture has by default: they would tell which weight was changed.
LEAVES = "steps: all\nsignature: false\ncapture: [{leaf: true, role: [input, output]}]\n"
WITH_PARAMETERS = "steps: 0\ncapture: [{role: [param]}, {leaf: true, role: [input, output]}]\n"


def capture(directory: Path, *arguments: object, config: str = LEAVES) -> Path:
    file = directory.parent / f"{directory.name}.yaml"
    file.write_text(config)
    words = [TDUMP_RUN, "-c", file, "-o", directory, "--", sys.executable, JOB, *arguments]
    done = execute([str(word) for word in words], directory.parent)
    assert done.returncode == 0 and "COMPLETE" in done.stderr, done.stderr
    return directory


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    cwd = tmp_path_factory.mktemp("precision")
    return {p: capture(cwd / p, "--precision", p, "--inputs", INPUTS) for p in ("float32", *LOSSY)}


@pytest.mark.parametrize("precision", LOSSY)
def test_twenty_runs_without_a_fault_are_the_same(runs, precision):
    option = ("--compute", LOSSY[precision])
    report = diff(runs["float32"], runs[precision], *option, status=0)
    counts = report["counts"]
    assert report["verdict"] == "same" and len(report["steps"]) == INPUTS
    assert counts["failing"] == counts["unpaired_a"] == counts["unpaired_b"] == counts["allowed"] == 0
    assert counts["paired"] == counts["judged"] > 140 * INPUTS
    for step in range(INPUTS):  # also each by itself
        assert diff(runs["float32"], runs[precision], *option, "--steps", str(step), status=0)["verdict"] == "same"


@pytest.mark.parametrize("precision", LOSSY)
def test_without_the_option_they_differ_and_it_is_named(runs, precision):
    text = said(runs["float32"], runs[precision], status=1)
    assert "DIFFERS" in text and f"--compute {LOSSY[precision]}" in text


@pytest.fixture(scope="module")
def with_parameters(tmp_path_factory) -> Path:
    return capture(tmp_path_factory.mktemp("parameters") / "clean", "--inputs", 1, config=WITH_PARAMETERS)


@pytest.mark.parametrize("precision", LOSSY)
@pytest.mark.parametrize("element", [(), ("--element", "200")])
def test_a_changed_weight_is_named(with_parameters, precision, element, tmp_path):
    """Parameters captured: one element of a LayerNorm or all."""
    fault = ("--norm", NORM, "--factors", 1.05, *element)
    wrong = capture(tmp_path / "wrong", "--precision", precision, "--inputs", 1, *fault, config=WITH_PARAMETERS)
    report = diff(with_parameters, wrong, "--compute", LOSSY[precision], status=1)
    assert [(d["name"], d["rank"]) for d in report["parameters"]["differing"]] == [(f"{NORM}.weight", 0)]
    assert where(report) == (NORM, 0, 0) and report["origin"]["parameter"] == f"{NORM}.weight"


@pytest.mark.parametrize("precision", LOSSY)
def test_weights_in_the_lower_precision_are_the_same(with_parameters, precision, tmp_path):
    lossy = capture(tmp_path / "lossy", "--precision", precision, "--inputs", 1, config=WITH_PARAMETERS)
    report = diff(with_parameters, lossy, "--compute", LOSSY[precision], status=0)
    assert report["parameters"]["compared"] == 103 and report["parameters"]["differing_names"] == 0


@pytest.fixture(scope="module")
def wrong_norms(tmp_path_factory) -> dict[str, Path]:
    """All norms, one after the other, with each of both factors."""
    cwd = tmp_path_factory.mktemp("norms")
    fault = ("--norm", *NORMS, "--factors", FACTOR, FACTOR_OF_LAST, "--inputs", WRONG_INPUTS)
    return {p: capture(cwd / p, "--precision", p, *fault) for p in LOSSY}


@pytest.mark.parametrize("precision", LOSSY)
@pytest.mark.parametrize("norm", NORMS)
def test_a_changed_norm_is_the_origin_for_every_input(runs, wrong_norms, precision, norm):
    """Parameters not captured: what it puts out, out of what it takes."""
    factor = precision == "fp8" and norm in NORMS[-2:]
    for i in range(WRONG_INPUTS):
        steps = f"{i}={(2 * NORMS.index(norm) + factor) * WRONG_INPUTS + i}"
        report = diff(
            runs["float32"], wrong_norms[precision], "--compute", LOSSY[precision], "--steps", steps, status=1
        )
        assert report["origin"]["name"] == norm and report["origin"]["kind"] == "operator"
