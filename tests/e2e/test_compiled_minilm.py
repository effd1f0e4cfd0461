"""The real model under torch.compile(fullgraph=True) on four ranks, compared with its eager run as in docs/guide.md."""

from __future__ import annotations

import sys

import pytest
from compiled_runs import PATIENCE
from conftest import SOURCE, TDUMP_RUN, mpirun
from diffing import diff, said

ENCODE = SOURCE / "examples" / "minilm" / "encode.py"
CONFIG = (SOURCE / "examples" / "minilm" / "tdump.yaml").read_text() + "compile: {taps: on}\n"
RANKS = 4
FEW_PROCESSES = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}  # each rank would start a pool of compilers
# One step: sentences of another length would be compiled anew.
COMPILED = ("--compile", "--steps", "1")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folders of an eager and of a compiled run."""
    cwd = tmp_path_factory.mktemp("compiled_minilm")
    (cwd / "tdump.yaml").write_text(CONFIG)
    for name, words in (("eager", COMPILED[1:]), ("compiled", COMPILED)):
        command = [TDUMP_RUN, "-c", "tdump.yaml", "-o", name, "--", sys.executable, "-W", "ignore", ENCODE, *words]
        done = mpirun(RANKS, command, cwd, FEW_PROCESSES, PATIENCE)
        assert done.returncode == 0, done.stderr
        assert "COMPLETE" in done.stderr, done.stderr
    return cwd / "eager", cwd / "compiled"


def test_the_same_operators_are_paired_and_agree_within_bounds(runs):
    report = diff(*runs, status=0)
    assert report["verdict"] == "same" and report["origin"] is None
    # Of each rank: 103 parameters and two buffers, 3 inputs of the model, and of 73 leaf modules an input and an output.
    assert report["counts"]["paired"] == RANKS * (103 + 2 + 3 + 2 * 73)
    assert report["counts"]["unpaired_a"] == report["counts"]["unpaired_b"] == 0
    assert report["counts"]["bitwise_equal"] < report["counts"]["paired"]  # Inductor's code rounds otherwise
    assert "SAME" in said(*runs, status=0)
