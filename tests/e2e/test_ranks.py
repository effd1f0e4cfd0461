"""Ranks that differ: some record and some do not, one runs a step more, one leaves early, one program is outside tdump.

Every job must end as it does without tdump: same output, same status, at most two seconds later.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

import pytest
import tdump
import torch
from conftest import BUILD, SOURCE, TDUMP_RUN, execute, latest, mpirun

sys.path.insert(0, str(SOURCE / "tests" / "format"))
import independent_reader

JOBS = Path(__file__).parent / "jobs"
JOB = [sys.executable, str(JOBS / "rank_job.py")]
ALL = "steps: 0-9\ncapture: [{leaf: true, role: [input, output], level: full}]\n"
RANKS = 4
STEPS = 6
MODULES = ["0", "1", "2"]


class Timed:
    """A finished job: what it printed, and how long after the last rank's last line mpirun returned, in seconds."""

    def __init__(self, done):
        now = time.time()
        assert done.returncode == 0, done.stderr
        # mpirun may run the lines of two ranks together.
        ends = [float(end) for end in re.findall(r"ended ([\d.]+);", done.stdout)]
        self.printed = sorted(re.findall("<[^>]*>", done.stdout))
        self.told = done.stderr
        self.tail = now - max(ends)


def pair(cwd: Path, config: str, job: list[str], ranks: int = RANKS) -> Timed:
    """The job without and with tdump; the two must be the same to the user."""
    (cwd / "c.yaml").write_text(config)
    bare = Timed(mpirun(ranks, job, cwd))
    dumped = Timed(mpirun(ranks, [TDUMP_RUN, "-c", "c.yaml", "--", *job], cwd))
    same_to_the_user(bare, dumped)
    return dumped


def same_to_the_user(bare: Timed, dumped: Timed) -> None:
    assert dumped.printed == bare.printed
    # Ending takes processor time, which a loaded machine gives out later.
    load = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    figures = f"after the last line: {bare.tail:.2f} s without, {dumped.tail:.2f} s with tdump; load {load:.1f} a core"
    print(figures)
    assert dumped.tail <= bare.tail + 2 * load, figures


def coverage(cwd: Path) -> dict:
    done = execute([BUILD / "bin" / "tdump-view", "latest", "--json"], cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_equal_steps(run: tdump.reader.Run) -> None:
    """Step s of every rank holds the tensors of step s of rank 0."""
    assert run.steps == list(range(STEPS)) and run.ranks == list(range(RANKS))
    for step in run.steps:
        expected = run[step, 0]
        assert sorted(expected) == MODULES
        for rank in run.ranks:
            for name, tensor in expected.items():
                assert torch.equal(torch.as_tensor(run[step, rank][name]), torch.as_tensor(tensor)), (step, rank, name)


@pytest.mark.parametrize("transport", ["file", "mpi"])
def test_rank_2_runs_one_forward_more(tmp_path, transport):
    # Over files the ranks run freely: what they computed tells. Over MPI they keep step: the begin times tell.
    job = [*JOB, "--extra", "2", *(["--mpi", "--sleep", "0.2"] if transport == "mpi" else [])]
    (tmp_path / "c.yaml").write_text(ALL)
    done = mpirun(RANKS, [TDUMP_RUN, "-c", "c.yaml", "--", *job], tmp_path)
    assert done.returncode == 0, done.stderr
    assert execute([BUILD / "bin" / "tdump-merge", "latest"], tmp_path).returncode == 0
    run = tdump.open(latest(tmp_path).path)
    assert_equal_steps(run)
    extra = [entry for entry in run.passes if entry.extra]
    assert [(entry.rank, entry.local_step) for entry in extra] == [(2, 3)]
    more = run.open(extra[0])
    given = next(record for record in more.records() if (record.name, record.role) == ("0", "input"))
    assert torch.equal(torch.as_tensor(more.tensor(given)), torch.full((2, 8), -100.0))
    assert all(entry.agreed for entry in run.passes)
    seen = coverage(tmp_path)
    assert seen["verdict"] == "COMPLETE" and seen["transport"] == transport
    assert [rank["steps_extra"] for rank in seen["ranks"]] == [[], [], [3], []]
    assert all(rank["steps_agreed"] == list(range(STEPS)) for rank in seen["ranks"])


def test_two_of_four_ranks_record_each_by_its_own_filter(tmp_path):
    config = (
        "steps: 0-9\nranks: [1, 3]\ncapture:\n"
        "  - {name: '^0$', ranks: 1, level: full}\n  - {name: '^2$', ranks: 3, level: full}\n"
    )
    pair(tmp_path, config, [*JOB, "--leave", "3"])
    run = latest(tmp_path)
    assert sorted(run.ranks()) == list(range(RANKS))  # every rank is on record
    assert [rank for rank in run.ranks() if run.passes(rank)] == [1, 3]
    seen = tdump.open(run.path)
    assert sorted((e.rank, e.step) for e in seen.passes) == [*((1, s) for s in range(6)), (3, 0), (3, 1)]
    assert all(list(seen.open(entry)) == [{1: "0", 3: "2"}[entry.rank]] for entry in seen.passes)
    ranks = coverage(tmp_path)["ranks"]
    assert [rank["selected"] for rank in ranks] == [False, True, False, True]
    assert [rank["closed"] for rank in ranks] == [True] * RANKS


def test_the_configuration_gives_each_rank_its_place(tmp_path):
    (tmp_path / "c.yaml").write_text(ALL + "topology: {order: [tp, dp], size: {dp: 2, tp: 2}}\n")
    done = mpirun(RANKS, [TDUMP_RUN, "-c", "c.yaml", "--", *JOB], tmp_path)
    assert done.returncode == 0, done.stderr
    places = {}
    for rank, (directory,) in latest(tmp_path).ranks().items():
        manifest = independent_reader.File((directory / "manifest.tdm").read_bytes())
        identity = next(frame.section(0x2001) for frame in manifest.frames if frame.has(0x2001))
        places[rank] = (identity["coordinates"], identity["coordinates_source"])
    # rank = tp + 2 * dp
    assert places == {
        0: ("tp=0 dp=0", "config"),
        1: ("tp=1 dp=0", "config"),
        2: ("tp=0 dp=1", "config"),
        3: ("tp=1 dp=1", "config"),
    }


@pytest.mark.parametrize("inside", [False, True])
def test_a_layout_for_another_number_of_ranks_is_refused_or_told_and_not_used(tmp_path, inside):
    (tmp_path / "c.yaml").write_text(ALL + "topology: {order: [tp, dp], size: {dp: 2, tp: 4}}\n")
    tool = [TDUMP_RUN, "-c", "c.yaml", "--"]
    if not inside:  # its launcher has said how many ranks there are
        done = mpirun(RANKS, [*tool, *JOB], tmp_path)
        assert done.returncode == 125 and "ended" not in done.stdout
        assert "the sizes make 8 ranks, the job has 4; expected sizes whose product" in done.stderr, done.stderr
        return
    launcher = [shutil.which("mpirun") or "mpirun", "--oversubscribe", "-n", str(RANKS)]
    done = execute([*tool, *launcher, *JOB], tmp_path)
    assert done.returncode == 0, done.stderr
    told = "tdump: topology: the sizes make 8 ranks, the job has 4; it is not used: give sizes whose product is the number of ranks\n"
    assert done.stderr.count(told) == 1, done.stderr
    for (directory,) in latest(tmp_path).ranks().values():
        manifest = independent_reader.File((directory / "manifest.tdm").read_bytes())
        identity = next(frame.section(0x2001) for frame in manifest.frames if frame.has(0x2001))
        assert identity["coordinates"] == ""


@pytest.mark.parametrize("ranks", ["[0, 2, 7]", "7"])
def test_a_rank_that_the_job_has_not_is_a_note_where_others_are_recorded(tmp_path, ranks):
    (tmp_path / "c.yaml").write_text(f"steps: 0-9\nranks: {ranks}\n")
    launcher = [shutil.which("mpirun") or "mpirun", "--oversubscribe", "-n", str(RANKS)]
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", *launcher, *JOB], tmp_path)
    assert done.returncode == 0, done.stderr
    told = "ranks: 7 is out of range: the job has 4 ranks; only ranks that exist are recorded"
    assert done.stderr.count(f"tdump: {told}\n") == 1, done.stderr
    seen = coverage(tmp_path)
    assert seen["notes"] == [f"ranks 0-3: {told}"]
    if ranks == "7":
        assert seen["verdict"] == "INCOMPLETE"
        assert seen["holes"] == ["nothing was written: `ranks` selects none of 4 ranks"]
    else:
        assert seen["verdict"] == "COMPLETE" and seen["holes"] == []


def test_a_program_outside_tdump_is_left_alone(tmp_path):
    # The world of MPI has three ranks, tdump knows two: it must not post a collective that rank 2 never joins.
    (tmp_path / "c.yaml").write_text(ALL)
    outside = [":", "-n", "1", sys.executable, str(JOBS / "barriers.py"), str(STEPS)]
    bare = Timed(mpirun(2, [*JOB, "--mpi", *outside], tmp_path))
    dumped = Timed(mpirun(2, [TDUMP_RUN, "-c", "c.yaml", "--", *JOB, "--mpi", *outside], tmp_path))
    same_to_the_user(bare, dumped)
    run = tdump.open(latest(tmp_path).path)
    assert run.ranks == [0, 1] and run.steps == list(range(STEPS))
    seen = coverage(tmp_path)
    assert seen["world"] == 3 and seen["transport"] == "file" and seen["verdict"] == "INCOMPLETE"
    assert seen["ranks"][2]["state"] == "never started"


def test_a_leaver_of_an_mpi_job_holds_nobody_up(tmp_path):
    # It stops taking part, its MPI_Finalize waits for the others as it does without tdump.
    script = tmp_path / "leaver.py"
    script.write_text(
        (JOBS / "rank_job.py").read_text().replace("if mpi is not None:\n            mpi.barrier()", "pass")
    )
    job = [sys.executable, str(script), "--mpi", "--leave", "0"]
    pair(tmp_path, ALL, job)
    run = tdump.open(latest(tmp_path).path)
    assert sorted({e.step for e in run.passes if e.rank == 0}) == [0, 1]
    assert all(sorted(e.step for e in run.passes if e.rank == rank) == list(range(STEPS)) for rank in (1, 2, 3))
    assert all(entry.agreed for entry in run.passes)


def test_initialise_and_finalise_alone(tmp_path):
    # No step at all: the duplicate of the world may still be under way when MPI is finalised.
    pair(tmp_path, ALL, [sys.executable, str(JOBS / "barriers.py"), "0"])
    assert sorted(latest(tmp_path).ranks()) == list(range(RANKS))
