"""Parameters that are DTensors, by fully_shard, by parallelize_module and by hand, with their gradients and what AdamW
keeps of them: each rank's part is recorded as the job has it, with where it lies in the whole, and compared with a process
that has all of it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import tdump
import torch
from conftest import TDUMP_RUN, Run, captured, mpirun
from diffing import diff, rows, said, where

JOB = Path(__file__).parent / "jobs" / "dtensor_training.py"
ROLES = ("param", "param_grad", "state")
CONFIG = "steps: all\ncapture: [{role: [param, param_grad, state, output], level: [full, stats]}]\n"
PARAMETERS = 11
# Of each parameter: itself, its gradient, and exp_avg, exp_avg_sq and step of AdamW.
RECORDS = 5 * PARAMETERS
DTENSORS = {"fsdp": 11, "tp": 7, "mixed": 9}  # parameters


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    return captured(1, [sys.executable, str(JOB), "one"], CONFIG, tmp_path_factory.mktemp("whole") / "one")


@pytest.fixture(scope="module", params=list(DTENSORS))
def job(request, tmp_path_factory):
    """The mode, both processes, the run, and what each rank noted."""
    cwd = tmp_path_factory.mktemp(request.param)
    (cwd / "c.yaml").write_text(CONFIG)
    bare = mpirun(2, [sys.executable, JOB, request.param, cwd / "store0"], cwd)
    command = [TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", sys.executable, JOB, request.param]
    dumped = mpirun(2, [*command, cwd / "store1", cwd / "seen"], cwd)
    assert bare.returncode == dumped.returncode == 0, bare.stderr + dumped.stderr
    return request.param, bare, dumped, cwd / "run", [torch.load(cwd / f"seen{rank}.pt") for rank in range(2)]


def recorded(run: Path, rank: int):
    for file in Run(run).passes(rank):
        step = tdump.load_pass(file)
        yield {f"{r.role} {r.path}.{r.arg}": (step, r) for r in step.records() if r.role in ROLES}


def test_the_job_is_the_same_job(job):
    _, bare, dumped, *_ = job
    assert bare.printed == dumped.printed and all(text.startswith("weights ") for text in bare.printed)


@pytest.mark.parametrize("rank", [0, 1])
def test_each_rank_records_the_part_that_it_has(job, rank):
    mode, *_, run, noted = job
    passes = list(recorded(run, rank))
    assert len(passes) == 2
    for records, expected in zip(passes, noted[rank], strict=True):
        assert set(records) == set(expected) and len(records) == RECORDS
        assert sum(placements != "" for _, placements, _ in expected.values()) == 4 * DTENSORS[mode]
        for name, (local, placements, shape) in expected.items():
            step, record = records[name]
            assert record.reason == "" and "payload" in record.kept, name
            assert record.shape == tuple(local.shape) and torch.equal(step.tensor(record), local), name
            assert record.stats["count"] == local.numel()
            assert (record.placements, record.global_shape) == (placements, shape), name
            assert record.subclass == ("DTensor" if placements else "")
            assert bool(re.match(r"DeviceMesh\(\((2,|tp=2)\), 'cpu', stride=\(1,\)\)$", record.mesh)) == bool(
                placements
            )
        assert all(records[name][1].requires_grad for name in records if name.startswith("param "))


def test_the_weights_are_judged_against_those_of_one_process(job, whole, tmp_path):
    mode, _, _, run, noted = job
    report = diff(whole, run, status=0)
    assert report["verdict"] == "same"
    pairs = [row for row in rows(whole, run, tmp_path / "rows") if row["type"] == "pair" and row["role"] in ROLES]
    assert len(pairs) == 2 * RECORDS and not any(row["fails"] for row in pairs)
    for role in ROLES:
        layouts = [row["layout_b"] for row in pairs if row["role"] == role]
        placed = sum(text.endswith("(annotated)") for text in layouts)
        assert placed == 2 * DTENSORS[mode] * (2 if role == "state" else 1), (role, layouts)
    if mode != "fsdp":  # before RowwiseParallel adds them up
        sums = [
            row
            for row in rows(whole, run, tmp_path / "rows")
            if row.get("layout_b") == "sum of 2 partials on tp (annotated)"
        ]
        assert [(row["name"], row["role"]) for row in sums] == [("first.down", "output")] * 2
    assert f"{PARAMETERS} of {PARAMETERS} parameters equal" in said(whole, run, status=0)


def test_a_part_of_a_weight_that_one_rank_changed_is_found(whole, tmp_path):
    command = [sys.executable, str(JOB), "fsdp", str(tmp_path / "store"), str(tmp_path / "seen"), "fault"]
    report = diff(whole, captured(2, command, CONFIG, tmp_path / "fault"), status=1)
    assert where(report) == ("second.down", 1, 1)
    text = " ".join(said(whole, tmp_path / "fault" / "run", status=1).split())
    assert "not on rank 1 from step 1 on: second.down.weight" in text
    # The first row of rank 1 is the fourth of all. By processor, a few more elements differ in their last bit.
    assert re.search(r"its parameter differs: second.down.weight: [1-9] of 48 elements, max abs 0.5 at \[3, 0\]", text)


def test_what_one_rank_alone_records_waits_for_no_other(tmp_path):
    """A collective of tdump's own would hang here, or be answered by one of the job's."""
    config = CONFIG + "ranks: [0]\n"
    command = [sys.executable, str(JOB), "mixed", str(tmp_path / "store"), str(tmp_path / "seen")]
    run = captured(2, command, config, tmp_path / "alone")
    assert [len(records) for records in recorded(run, 0)] == [RECORDS] * 2
    assert Run(run).passes(1) == []
