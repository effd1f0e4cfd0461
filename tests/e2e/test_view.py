"""tdump-view and tdump-merge on real jobs: a clean one, one that still runs, and one whose rank was killed in a pass."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import BUILD, TDUMP_RUN, clean_environment, execute, latest, mpirun

RANKS = 2
MODEL = """
import os, signal, sys, time
import numpy as np, torch

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(4, 4)
        self.drop = torch.nn.Dropout()  # never called

    def forward(self, x):
        return self.dense(x)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = torch.nn.ModuleList([Block(), Block()])
        self.last = torch.nn.Identity()

    def forward(self, x):
        for block in self.block:
            x = block(x)
        return self.last(x)

torch.manual_seed(rank)
model = Model().eval()

def step(n):
    with torch.no_grad():
        return model(torch.full((3, 4), n + 0.1))
"""
CLEAN = MODEL + "np.save(f'out{rank}.npy', np.stack([step(n).numpy() for n in range(2)]))\n"
# Rank 1 dies within its third step, when the file appears; till then both ranks have an open pass.
KILLED = (
    MODEL
    + """
class Trap(torch.nn.Module):
    def forward(self, x):
        if self.armed:
            open(f"ready{rank}", "w").close()
            while not os.path.exists("die"):
                time.sleep(0.05)
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
        return x

model.last = Trap()
for n in range(3):
    model.last.armed = n == 2
    step(n)
"""
)


def tool(name: str, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return execute([str(BUILD / "bin" / name), *arguments], cwd, timeout=60)


def view_json(cwd: Path, *arguments: str) -> dict:
    done = tool("tdump-view", cwd, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("clean")
    (cwd / "app.py").write_text(CLEAN)
    done = mpirun(RANKS, [TDUMP_RUN, "--dump", "--", sys.executable, "app.py"], cwd)
    assert done.returncode == 0, done.stderr
    return cwd, done


def test_a_clean_run_is_complete_in_four_lines(clean):
    cwd, job = clean
    done = tool("tdump-merge", cwd, "latest", "--strict")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4, done.stdout
    assert lines[0].startswith("tdump: COMPLETE  latest = outputs/")
    assert re.match(
        r"  steps      0-1 written \(2 of 2 seen\); 0-1 agreed on all 2 ranks \(transport file, lag \d+ steps?\)$",
        lines[1],
    ), lines[1]
    assert lines[2] == (
        "  ranks      2 of 2 wrote all 2 steps; operators: 5 selected, 3 seen, 3 complete on every rank; "
        "never called: block.{0-1}.drop"
    )
    # The job said the same when it ended, under the name of its directory.
    assert lines[1] in job.stderr and lines[2] in job.stderr, job.stderr


def test_view_says_the_same_with_and_without_a_merged_manifest(clean):
    cwd, _ = clean
    with_manifest = tool("tdump-view", cwd).stdout
    assert "signature  input 0 [3, 4] float32, hashed each step; 4 parameters hashed once" in with_manifest
    manifest = latest(cwd).path / "manifest.tdm"
    manifest.unlink(missing_ok=True)
    assert tool("tdump-view", cwd).stdout == with_manifest


def test_values_are_those_of_the_job(clean):
    cwd, _ = clean
    for rank in range(RANKS):
        expected = np.load(cwd / f"out{rank}.npy")
        for step in range(2):
            done = tool("tdump-view", cwd, f"latest:{step}/{rank}/last@output", "--txt", "-")
            assert done.returncode == 0, done.stderr
            rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
            np.testing.assert_array_equal(np.array(rows, dtype=np.float32), expected[step])


def test_the_line_for_python_works(clean, monkeypatch):
    cwd, _ = clean
    monkeypatch.chdir(cwd)
    done = tool("tdump-view", cwd, "latest:1/0/last")
    line = next(line for line in done.stdout.splitlines() if line.startswith("python: "))
    import tdump

    tensor = eval(line.removeprefix("python: "), {"tdump": tdump})
    np.testing.assert_array_equal(tensor.numpy(), np.load(cwd / "out0.npy")[1])


def test_a_copied_run_and_one_ranks_directory_open(clean, tmp_path):
    cwd, _ = clean
    copy = tmp_path / "moved" / "run"
    shutil.copytree(latest(cwd).path, copy)
    assert view_json(tmp_path, str(copy))["verdict"] == "COMPLETE"
    (rank1,) = copy.glob("rank1_pid*")
    assert len(view_json(tmp_path, str(rank1), "--records")["records"]) == len(
        view_json(tmp_path, str(copy), "--records", "--rank", "1")["records"]
    )
    shutil.rmtree(rank1)
    assert view_json(tmp_path, str(copy))["holes"] == ["rank 1 never started under tdump"]


def test_a_forged_payload_is_damage(clean, tmp_path):
    cwd, _ = clean
    copy = tmp_path / "run"
    shutil.copytree(latest(cwd).path, copy)
    assert tool("tdump-view", tmp_path, "run", "--verify").returncode == 0
    path = next(copy.glob("rank0_pid*/pass00000.tdp"))
    content = bytearray(path.read_bytes())
    at = content.find(np.load(cwd / "out0.npy")[0].tobytes())
    assert at > 0
    content[at] ^= 1
    path.write_bytes(content)
    done = tool("tdump-view", tmp_path, "run", "--verify")
    assert done.returncode == 1 and path.name in done.stdout, done.stdout


def wait_for(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.1)


def test_while_it_runs_and_after_a_kill(tmp_path):
    (tmp_path / "app.py").write_text(KILLED)
    mpirun_path = shutil.which("mpirun")
    job = subprocess.Popen(
        [mpirun_path, "--oversubscribe", "-n", str(RANKS), TDUMP_RUN, "--dump", "--", sys.executable, "app.py"],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: all((tmp_path / f"ready{rank}").exists() for rank in range(RANKS)))
        time.sleep(1)  # whatever was committed is in the file by now
        running = view_json(tmp_path)
        assert running["verdict"] == "RUNNING", running
        assert [rank["state"] for rank in running["ranks"]] == ["still running"] * RANKS
        assert [rank["steps"] for rank in running["ranks"]] == [[0, 1]] * RANKS
        assert [rank["steps_unfinished"] for rank in running["ranks"]] == [[2]] * RANKS
        (tmp_path / "die").touch()
        job.wait(60)
    finally:
        if job.poll() is None:
            os.kill(job.pid, 15)
        job.communicate()
    wait_for(lambda: view_json(tmp_path)["verdict"] == "INCOMPLETE")
    after = view_json(tmp_path)
    assert [rank["state"] for rank in after["ranks"]] == ["killed or left by _exit"] * RANKS
    assert all(rank["records"] > 6 for rank in after["ranks"])  # of the step that was cut, too
    assert [rank["steps_unfinished"] for rank in after["ranks"]] == [[2]] * RANKS
    # What rank 1 had recorded in the step it died in is there, under its names.
    names = [r["name"] for r in view_json(tmp_path, "latest:2/1", "--records", "--role", "output")["records"]]
    assert names == ["block.0.dense", "block.1.dense"]
    assert tool("tdump-view", tmp_path, "latest", "--verify").returncode == 0
    merged = tool("tdump-merge", tmp_path, "latest", "--strict")
    assert merged.returncode == 1
    assert "ranks 0-1 killed or left by _exit on" in merged.stdout and "in step 2" in merged.stdout, merged.stdout


def test_an_operator_that_has_no_record_is_named_with_the_reason(tmp_path):
    job = "import torch\nm = torch.nn.Sequential(torch.nn.ReLU())\nm(torch.ones(1, 2))\n"
    (tmp_path / "job.py").write_text(job)
    (tmp_path / "c.yaml").write_text("capture: [{leaf: true, role: [grad_output], phase: [backward], level: full}]\n")
    done = execute([TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", sys.executable, "job.py"], tmp_path)
    assert done.returncode == 0, done.stderr
    view = execute([BUILD / "bin" / "tdump-view", "run:0/0/0"], tmp_path)
    assert view.returncode != 0 and "'0' was called, but has no record there" in view.stderr
