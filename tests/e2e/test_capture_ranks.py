"""Ranks that differ: in what is asked of them, in how they end (one fails, leaves or is killed), and how many files
they make."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tdump
from conftest import TDUMP_RUN, latest, mpirun

JOB = Path(__file__).parent / "jobs" / "ranks.py"


def results(directory: Path) -> list[str]:
    return [(directory / f"results_{rank}").read_text() for rank in (0, 1)]


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    directory = tmp_path_factory.mktemp("bare")
    done = mpirun(2, [sys.executable, JOB, "reduces"], directory)
    assert done.returncode == 0, done.stderr
    return results(directory)


@pytest.mark.parametrize(
    ("config", "passes"),
    [
        ("capture: [{leaf: true, ranks: 0, level: full}]\nsignature: false\n", {0: 3, 1: 0}),
        ("ranks: [0]\nsignature: false\ncapture: [{leaf: true, level: full}]\n", {0: 3}),
    ],
)
def test_ranks_of_which_different_things_are_asked(tmp_path, bare, config, passes):
    (tmp_path / "c.yaml").write_text(config)
    done = mpirun(2, [TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, JOB, "reduces"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert results(tmp_path) == bare
    run = latest(tmp_path)
    for rank in (0, 1):
        files = run.passes(rank)
        assert len(files) == (4 if rank in passes else 0)
        assert all(len(tdump.load_pass(file)) == passes[rank] for file in files)


@pytest.mark.parametrize("end", ["throws", "killed", "leaves"])
def test_a_rank_that_ends_early(tmp_path, end):
    command = [sys.executable, JOB, end]
    (tmp_path / "bare").mkdir()
    without = mpirun(2, command, tmp_path / "bare")
    (tmp_path / "c.yaml").write_text("steps: all\ncapture: [{leaf: true, level: full}]\n")
    done = mpirun(2, [TDUMP_RUN, "-c", "c.yaml", "--", *command], tmp_path)
    assert done.returncode == without.returncode and (done.returncode == 0) == (end == "leaves")
    assert ("rank 1 gives up" in done.stderr) == (end == "throws")
    run = latest(tmp_path)
    for rank in (0, 1):
        (directory,) = run.ranks()[rank]
        files = sorted(directory.glob("pass*"))
        unfinished = end != "leaves" or rank == 1
        whole = 2 if unfinished else 4
        assert [file.name for file in files[:whole]] == [f"pass0000{n}.tdp" for n in range(whole)]
        for n, file in enumerate(files[:whole]):
            seen = tdump.load_pass(file)
            assert seen.complete and seen["2"].shape == (1, 4) and seen.info.local_step == n
        # A rank that raised still closes what it has; of one that was killed the begun step is readable as far as it
        # went, which is all of it: it was a second old.
        if unfinished and not (end == "throws" and rank == 1):
            assert [file.name for file in files[2:]] == ["pass00002.tdp.part"]
            with pytest.warns(UserWarning, match="unfinished pass"):
                assert set(tdump.load_pass(files[2])) == {"0", "1", "2"}


MANY = """
import torch
module, x = torch.nn.Sequential(torch.nn.Identity()), torch.ones(8)
class Loop(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ModuleList(torch.nn.Identity() for _ in range(10))
    def forward(self, x):
        for n in range(2500):
            self.parts[n % 10](x)
loop = Loop()
for step in range(3):
    loop(x)
"""


def test_files_do_not_grow_with_records(tmp_path):
    (tmp_path / "app.py").write_text(MANY)
    (tmp_path / "c.yaml").write_text("capture: [{leaf: true, role: [input, output], level: [meta, hash]}]\n")
    done = mpirun(4, [TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, "app.py"], tmp_path)
    assert done.returncode == 0, done.stderr
    run = latest(tmp_path)
    assert sorted(run.ranks()) == [0, 1, 2, 3]
    for rank in range(4):
        (directory,) = run.ranks()[rank]
        names = {path.name for path in directory.iterdir()}
        passes = {f"pass0000{n}.tdp" for n in range(3)}
        assert names - {"steps.tdm"} == {"manifest.tdm", *passes}  # the first rank keeps the numbers of the steps too
    records = list(tdump.load_pass(run.passes(3)[2]).records())
    assert len(records) == 2 * 2500 + 1  # and the root's input, which is signed
    assert (
        len([path for path in run.path.rglob("*") if path.is_file()]) <= 4 * 5 + 4 + 8
    )  # and a slot of each rank, and those of the run
