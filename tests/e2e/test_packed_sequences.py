"""Packed sequences whose lengths change from step to step, put together by the cu_seqlens that each step was given."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import captured
from diffing import diff, rows, said

JOB = Path(__file__).parent / "jobs" / "packed_sequences.py"
LAYOUT = "t[cp:zigzag:packed=@cu_seqlens] h"
OUTPUTS = 4  # of two modules in two steps


def run(directory: Path, ranks: int, capture: str) -> Path:
    return captured(ranks, [sys.executable, str(JOB)], f"version: 1\ncapture: [{capture}]\n", directory)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[Path, Path]:
    directory = tmp_path_factory.mktemp("packed")
    both = "{role: [input, output], level: full}"
    return run(directory / "one", 1, both), run(directory / "two", 2, both)


def test_the_lengths_of_each_step_are_its_own(runs, tmp_path):
    rule = ["--dims", f"@output|@input#0: {LAYOUT}"]
    assert diff(*runs, *rule, status=0)["verdict"] == "same"
    found = [row for row in rows(*runs, tmp_path / "rows", *rule) if row["role"] == "output"]
    assert len(found) == OUTPUTS
    assert {row["layout_b"] for row in found} == {"concatenated on cp (zig-zag) (--dims)"}
    fixed = LAYOUT.replace("@cu_seqlens", "8+12+4")
    text = said(*runs, "--dims", f"@output: {fixed}", status=1)
    assert "the sequences have 24 units, the ranks of cp hold 20" in " ".join(text.split())


def test_a_rule_of_the_capture_may_name_the_record(tmp_path):
    capture = "{role: output, level: full, dims: '%s'}, {arg: cu_seqlens, role: input, level: %s}"
    one = run(tmp_path / "one", 1, capture % (LAYOUT, "full"))
    two = run(tmp_path / "two", 2, capture % (LAYOUT, "full"))
    assert diff(one, two, status=0)["verdict"] == "same"
    hashed = run(tmp_path / "hashed", 2, capture % (LAYOUT, "hash"))
    text = " ".join(said(one, hashed, status=1).split())
    assert "it was kept without its values: capture it with level full" in text
