"""When MPI is finalised, if ever: what was recorded is on disk, and the job ends as it does without tdump.  (F16)

Open MPI ends a job that calls it after MPI_Finalize, with a message.
"""

from __future__ import annotations

import json
import re

import pytest
from conftest import BUILD, TDUMP_RUN, execute, latest, mpirun

torch = pytest.importorskip("torch")

APP = BUILD / "tests" / "jobs" / "finalize"
RANKS = 2
QUIET = {"TDUMP_LOG": "error"}
# Open MPI ends the other ranks of a job in which one leaves without MPI_Finalize, unless told this.
LENIENT = {"OMPI_MCA_orte_allowed_exit_without_sync": "1"}

pytestmark = pytest.mark.skipif(not APP.exists(), reason="built without MPI")


def outcome(done) -> tuple:
    """What a user sees; mpirun's complaint names whichever rank it noticed first."""
    return done.returncode, done.printed, re.sub(r"\d+", "N", done.stderr)


@pytest.mark.parametrize("when, env", [("return", {}), ("static", {}), ("global", {}), ("never", LENIENT)])
def test_all_is_written_and_nothing_else_said(tmp_path, when, env):
    import tdump

    bare = mpirun(RANKS, [APP, when], tmp_path, env)
    dumped = mpirun(RANKS, [TDUMP_RUN, "--dump", "--", APP, when], tmp_path, {**env, **QUIET})
    assert outcome(dumped) == outcome(bare)
    finalised = "finalised\n" if when in ("static", "global") else ""
    assert outcome(bare) == (0, [f"rank {rank} is done\n{finalised}" for rank in range(RANKS)], "")

    run = latest(tmp_path)
    for rank in range(RANKS):
        values = [tdump.load_pass(path)["part/value"] for path in run.passes(rank)]
        assert [value.tolist() for value in values] == [[[10.0 * rank + step] * 3] * 2 for step in range(3)]
    view = execute([BUILD / "bin" / "tdump-view", run.path, "--json"], tmp_path)
    seen = json.loads(view.stdout)
    assert (seen["verdict"], seen["transport"]) == ("COMPLETE", "mpi")
    assert [rank["closed"] for rank in seen["ranks"]] == [True] * RANKS


def test_the_complaint_about_a_missing_finalise_is_open_mpis_own(tmp_path):
    bare = mpirun(RANKS, [APP, "never"], tmp_path)
    dumped = mpirun(RANKS, [TDUMP_RUN, "--dump", "--", APP, "never"], tmp_path, QUIET)
    assert bare.returncode != 0 and "finalize" in bare.stderr
    assert outcome(dumped) == outcome(bare)
