"""A rank of a tensor parallel job that is killed in a step: tdump-diff names it, and not the ranks that lack its shards."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from conftest import SOURCE, TDUMP_RUN, captured, execute, mpirun
from diffing import diff, said

JOB = SOURCE / "tests" / "e2e" / "jobs" / "killed_rank.py"
CONFIG = "steps: 0-3\ncapture:\n  - {role: [input, output], level: full}\n"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One rank that ran it all."""
    place = tmp_path_factory.mktemp("whole")
    (place / "c.yaml").write_text(CONFIG)
    done = execute([TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", sys.executable, JOB, "good"], place)
    assert done.returncode == 0, done.stderr
    return place / "run"


def killed_run(place: Path, python: str, layout: str) -> Path:
    (place / "c.yaml").write_text(CONFIG + f"output: {{layout: {layout}}}\n")
    done = mpirun(4, [TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", python, JOB, "killed"], place)
    assert done.returncode == 128 + signal.SIGKILL, done.stderr
    return place / "run"


@pytest.mark.parametrize("layout", ["pass", "packed", "node"])
def test_the_killed_rank_is_the_origin(tmp_path, whole, python, layout):
    run = killed_run(tmp_path, python, layout)
    title = "step 2, killed or left by _exit in 1.act\n"
    text = said(whole, run, status=1)
    assert f"\nORIGIN    rank 2 of B, {title}" in text, text
    assert "its part of 1.act, output, and of what comes after" in text, text
    assert f"\nORIGIN    rank 2 of A, {title}" in said(run, whole, status=1)
    killed = diff(whole, run, status=1)["origin"]["killed"]
    assert killed == {
        "side": "B",
        "ranks": [2],
        "how": "killed or left by _exit",
        "last": "1.act@input#0",
        "lacking": "1.act@output#",
    }
    # What was told of the ranks' layout.
    dims = ["--dims", "B:(up@output|act|down@input): b h[rank]", "--dims", "B:down@output: b h partial[rank]"]
    assert f"\nORIGIN    rank 2 of B, {title}" in said(whole, run, *dims, status=1)
    # The steps before it are whole.
    assert diff(whole, run, "--steps", "0-1", status=0)["origin"] is None


def test_a_job_that_ends_well_has_no_such_origin(tmp_path, whole, python):
    run = captured(4, [python, JOB, "good"], CONFIG, tmp_path / "good")
    assert diff(whole, run, status=0)["origin"] is None
