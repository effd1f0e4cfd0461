"""What finds no room in memory: counted per operator in the coverage of the run, and what stands for it (`memory.at_limit`)."""

from __future__ import annotations

import sys
from collections import Counter

import pytest
import tdump
import torch
from conftest import BUILD, TDUMP_RUN, execute, latest

SLOW_WRITER = BUILD / "tests" / "jobs" / "slow_writer.so"
# The writer's first write ends when the job has made all its tensors.
JOB = """
import pathlib, torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.big, self.small, self.other = torch.nn.Identity(), torch.nn.Identity(), torch.nn.Identity()
    def forward(self, x):
        self.small(x[:4])
        for n in range(40):
            self.big(x + n)
        for n in range(3):
            self.other(x - n)
        return self.small(x[:8])
with torch.no_grad():
    Net()(torch.arange(1 << 18, dtype=torch.float32))  # 1 MiB
pathlib.Path("made").touch()
"""
CALLS = {"big": 40, "small": 2, "other": 3}
CONFIG = "steps: all\nsignature: false\nmemory: {host: 16MiB, %s}\ncapture: [{leaf: true, level: full}]\n"
FIRST = torch.arange(1 << 18, dtype=torch.float64)


def limited(app, cwd, memory):
    """The coverage as text, and the records of the one pass."""
    (cwd / "c.yaml").write_text(CONFIG % memory)
    slow = {"LD_PRELOAD": str(SLOW_WRITER), "SLOW_WRITER_UNTIL": str(cwd / "made")}
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, app(JOB)], cwd, slow)
    assert done.returncode == 0, done.stderr
    view = execute([BUILD / "bin" / "tdump-view", "latest", "--coverage"], cwd)
    assert view.returncode == 0, view.stderr
    (file,) = latest(cwd).passes(0)
    return view.stdout, tdump.load_pass(file)


def values(record) -> torch.Tensor:
    return FIRST + record.call if record.path == "big" else FIRST - record.call


@pytest.mark.parametrize("memory", ["at_limit: drop", "at_limit: stats", "max_block: 10%"])
def test_what_finds_no_room_is_counted_by_operator(app, tmp_path, memory):
    coverage, seen = limited(app, tmp_path, memory)
    records = list(seen.records())
    assert Counter(r.path for r in records) == CALLS
    missing = [r for r in records if r.bytes is None]
    assert {r.reason for r in missing} == {"memory limit"}
    assert {r.call for r in records if r.path == "big" and r.bytes is not None} == set(range(14))  # of 16 MiB
    lost = Counter(r.path for r in missing)
    assert lost == {"big": 26, "other": 3}
    assert "tdump: INCOMPLETE" in coverage and "29 records: memory limit (rank 0)" in coverage
    assert "3 selected, 3 seen, 1 complete on every rank" in coverage
    rows = [line.split() for line in coverage.splitlines()]
    for path, count in lost.items():
        assert [path, "1", "1", str(count)] in rows, coverage
    assert not any(row[:1] == ["small"] for row in rows)  # all of it is there
    for record in missing:
        if memory == "at_limit: drop":
            assert record.stats is None and record.hash is None
        else:
            expected = values(record)
            assert record.hash is not None
            assert (record.stats["min"], record.stats["max"]) == (expected.min(), expected.max())
            assert record.stats["mean"] == pytest.approx(expected.mean().item())
    for record in records:
        if record.bytes is not None and record.path == "big":
            assert torch.equal(seen.tensor(record).double(), values(record))
    waited = "more than memory.max_block (10 % of the step): in the rest of it statistics and hash stand for"
    assert (waited in coverage) == (memory == "max_block: 10%")


def test_with_a_writer_in_time_nothing_is_missing(app, tmp_path):
    (tmp_path / "made").touch()
    coverage, seen = limited(app, tmp_path, "max_block: 100%")
    assert "tdump: COMPLETE" in coverage and "not kept" not in coverage.split("\n\n")[0]
    for record in seen.records():
        if record.path != "small":
            assert torch.equal(seen.tensor(record).double(), values(record))
