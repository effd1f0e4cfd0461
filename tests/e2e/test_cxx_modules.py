"""Modules of LibTorch in a C++ program whose only line of tdump names the model."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from conftest import BUILD, TDUMP_RUN, execute, latest

APP = BUILD / "tests" / "cxx_modules"
CONFIG = "steps: 0-2\ncapture: [{role: [param, input, output], level: full}]\n"


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    import tdump

    cwd = tmp_path_factory.mktemp("cxx")
    (cwd / "c.yaml").write_text(CONFIG)
    bare = execute([APP], cwd)
    dumped = execute([TDUMP_RUN, "-c", "c.yaml", "--", APP], cwd)
    assert dumped.returncode == 0, dumped.stderr
    return bare, dumped, [tdump.load_pass(file) for file in latest(cwd).passes(0)]


def test_the_job_is_the_same_job(job):
    bare, dumped, _ = job
    assert bare.stdout == dumped.stdout and bare.stdout.startswith("caught\nsum ")


def test_a_sequential_gives_one_record_a_layer_and_step(job):
    _, _, passes = job
    assert [p.info.mode for p in passes] == ["train"] * 3
    for p in passes:
        assert list(p) == ["0", "1", "2"]
        classes = {r.path: r.cls for r in p.records() if r.role == "output"}
        assert classes == {"0": "torch::nn::LinearImpl", "1": "torch::nn::ReLUImpl", "2": "torch::nn::LinearImpl"}


def test_values_are_those_at_the_time_of_the_call(job):
    _, _, passes = job
    for p in passes:
        linear = F.linear(p[f"0::call{1 if p is passes[1] else 0}@input#0"], p["0@param#weight"], p["0@param#bias"])
        assert (linear < 0).any()
        assert torch.equal(p["0"], linear)  # although the ReLU wrote over it
        assert torch.equal(p["1@input#0"], linear) and torch.equal(p["1"], F.relu(linear))
        assert torch.equal(p["2"], F.linear(F.relu(linear), p["2@param#weight"], p["2@param#bias"]))
    assert not torch.equal(passes[0]["0@param#weight"], passes[1]["0@param#weight"])


def test_a_forward_that_raised_is_marked_and_encloses_nothing(job):
    _, _, passes = job
    calls = sorted(passes[1].calls(), key=lambda c: c.begin)
    assert [(c.path, c.index, c.threw, c.parent) for c in calls] == [
        ("0", 0, True, 0),
        ("0", 1, False, 0),
        ("1", 0, False, 0),
        ("2", 0, False, 0),
    ]
    assert not any(c.threw for p in (passes[0], passes[2]) for c in p.calls())
