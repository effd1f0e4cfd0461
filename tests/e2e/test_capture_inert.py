"""The observer does not change the run, and is not there when it is not asked for."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import tdump
from conftest import BUILD, TDUMP_RUN, execute, latest, no_run

JOB = Path(__file__).parent / "jobs" / "quiet.py"
ENV = {"PYTHONPATH": str(BUILD / "python")}

ENTRY_POINT = """
import importlib, json, sys, time
opened, armed = [], True
def audit(event, args):
    if armed and event in ("open", "ctypes.dlopen", "subprocess.Popen", "os.putenv") and args[0] is not None:
        opened.append(str(args[0]))
sys.addaudithook(audit)
import torch
armed = False
ours = [name for name in sys.modules if name.startswith("tdump")]
costs = []
for _ in range(20):
    sys.modules.pop("tdump_autoload", None)
    began = time.perf_counter()
    importlib.import_module("tdump_autoload").load()
    costs.append(time.perf_counter() - began)
print(json.dumps({
    "opened": [name for name in opened if "tdump" in name],
    "modules": ours,
    "hooks": len(torch.nn.modules.module._global_forward_hooks),
    "ms": min(costs) * 1000,
}))
"""


def test_with_nothing_set_the_entry_point_returns_at_once(tmp_path):
    for extra in ({}, {"TDUMP_CONFIG": str(tmp_path / "none.yaml"), "TDUMP_DISABLE": "1"}):
        done = execute([sys.executable, "-c", ENTRY_POINT], tmp_path, ENV | extra)
        assert (done.returncode, done.stderr) == (0, ""), extra
        seen = json.loads(done.stdout)
        assert seen["hooks"] == 0 and no_run(tmp_path)
        if not extra:
            assert seen["modules"] == ["tdump_autoload"]
            files = {Path(name).name.split(".")[0] for name in seen["opened"] if "dist-info" not in name}
            assert files <= {"tdump_autoload"}, seen["opened"]
            assert seen["ms"] < 1  # the file is read again each time


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("quiet")
    (cwd / "c.yaml").write_text("steps: all\ncapture: [{role: [input, output], level: full}]\n")
    bare = execute([sys.executable, JOB], cwd, ENV)
    assert bare.returncode == 0, bare.stderr
    dumped = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, JOB], cwd)
    assert dumped.returncode == 0, dumped.stderr
    return bare, dumped, [tdump.load_pass(file) for file in latest(cwd).passes(0)]


def test_the_job_is_the_same_job(job):
    bare, dumped, _ = job
    assert dumped.stdout.splitlines() == bare.stdout.splitlines()
    assert "gradients_keep_their_buffers [True]" in bare.stdout  # so are they under tdump
    assert len(bare.stdout.splitlines()) == 6


def test_a_recomputed_forward_is_marked_and_not_in_the_plain_view(job):
    training = [seen for seen in job[2] if seen.info.mode == "train"]
    of_model = [seen for seen in training if any(record.cls.endswith(".Model") for record in seen.records())]
    assert len(of_model) == 2
    for seen in of_model:
        (prefix,) = {record.root for record in seen.records() if record.cls.endswith(".Model")}
        first = f"{prefix}.first" if prefix else "first"
        calls = [call for call in seen.calls() if call.name == f"{first}.lin"]
        assert [(call.recompute, call.index) for call in calls] == [(False, 0), (True, 0)]
        again = [record for record in seen.records() if record.name == f"{first}.lin" and record.recompute]
        assert {record.role for record in again} == {"input", "output"}
        assert seen.tensor(again[-1]).equal(seen[f"{first}.lin"])  # it computes what it computed
        assert f"{first}.lin::call1" not in seen


def test_what_is_computed_anew_is_left_out_where_that_is_asked_for(job, tmp_path):
    (tmp_path / "c.yaml").write_text(
        "steps: all\nrecompute: drop\ncapture: [{role: [input, output, grad_output], phase: [forward, backward], level: full}]\n"
    )
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, JOB], tmp_path)
    assert done.returncode == 0 and "tdump: COMPLETE" in done.stderr, done.stderr
    assert done.stdout == job[0].stdout
    again = [tdump.load_pass(file) for file in latest(tmp_path).passes(0)]
    both = ([one for one in passes if one.info.mode == "train"] for passes in (job[2], again))
    of_train = list(zip(*both, strict=True))
    assert any(record.recompute for marked, _ in of_train for record in marked.records())
    for marked, dropped in of_train:
        kept = {record.key for record in marked.records() if not record.recompute}
        assert {record.key for record in dropped.records() if record.phase == "forward"} == kept
    gradients = [record for seen in again for record in seen.records() if record.role == "grad_output"]
    assert any(record.name.endswith("first.lin") for record in gradients)


INTERRUPTED = """
import signal, torch
model = torch.nn.Sequential(*[torch.nn.Sequential(*[torch.nn.ReLU() for _ in range(40)]) for _ in range(150)])
model.append(torch.nn.Linear(2, 2))
def stop(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, stop)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.03)  # while tdump looks for 6,000 names
    for step in range(10**9):
        model(torch.ones(2))
except KeyboardInterrupt:
    print("interrupted")
for step in range(2):
    model(torch.ones(2))
"""


def test_an_interrupt_while_modules_are_named_is_the_jobs(tmp_path):
    (tmp_path / "app.py").write_text(INTERRUPTED)
    done = execute([TDUMP_RUN, "--dump", "--", sys.executable, "app.py"], tmp_path, timeout=60)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
    assert "could not be named" not in done.stderr
    seen = [tdump.load_pass(file) for file in latest(tmp_path).passes(0)]
    assert any(record.key == "150@param#weight" for one in seen for record in one.records())
    assert "150" in seen[-1]


def test_threads_have_lanes_of_their_own(job):
    blocks = [
        call
        for seen in job[2]
        for call in seen.calls()
        if call.name.endswith("lin") and "first" not in call.name and "second" not in call.name
    ]
    of_lane: dict[tuple[int, int], list[int]] = {}
    for call in blocks:
        of_lane.setdefault((call.thread, call.lane), []).append(call.index)
    threads = [thread for thread, _ in of_lane]
    assert len(blocks) == 80 and len(set(threads)) == 4
    for seen in job[2]:
        lanes = {}
        for call in seen.calls():
            lanes.setdefault(call.lane, set()).add(call.thread)
        assert all(len(threads) == 1 for threads in lanes.values())  # a lane is one thread of a pass
