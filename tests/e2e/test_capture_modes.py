"""Steps of a job that trains and evaluates in turns; what is signed; predicates of the configuration."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tdump
from conftest import TDUMP_RUN, execute, latest

JOB = Path(__file__).parent / "jobs" / "modes.py"
TURNS = [("eval", 0), ("train", 0), ("train", 1), ("eval", 1), ("eval", 2), ("train", 2)]


def run(cwd: Path, config: str, job: list[str | Path], expect: int = 0):
    (cwd / "c.yaml").write_text(config)
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, *job], cwd)
    assert done.returncode == expect, done.stderr
    return done, [tdump.load_pass(file) for file in latest(cwd).passes(0)]


@pytest.mark.parametrize("variant", ["", "late", "copied", "closure", "replaced"])
def test_steps_over_the_modes(tmp_path, variant):
    config = "steps: all\nsignature: false\ncapture: [{leaf: true, role: [input], level: full}]\n"
    _, passes = run(tmp_path, config, [JOB, variant])
    assert [(p.info.local_step, p.info.mode, p.info.mode_step) for p in passes] == [
        (n, *turn) for n, turn in enumerate(TURNS)
    ]
    per_train = 3 if variant == "closure" else 2
    value = 0
    for seen in passes:
        calls = per_train if seen.info.mode == "train" else 1
        batches = [record for record in seen.records() if record.name == "lin"]
        assert [(record.micro, record.call) for record in batches] == [(n, 0) for n in range(calls)]
        for record in batches:  # each step has its own batches, and the loss called beside the model
            value += 1
            assert seen.tensor(record).tolist() == [[value, value]]
        losses = [call for call in seen.calls() if call.name == "MSELoss"]
        assert len(losses) == calls


def test_selected_are_steps_over_all_modes(tmp_path):
    _, passes = run(tmp_path, "steps: 2-3\ncapture: [{leaf: true, level: hash}]\n", [JOB])
    assert [(p.info.local_step, p.info.mode) for p in passes] == [(2, "train"), (3, "eval")]


SIGNED = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.norm = nn.Linear(2, 2), nn.BatchNorm1d(2)
        self.tied = nn.Linear(2, 2)
        self.tied.weight = self.lin.weight
    def forward(self, x, *, mask=None):
        return self.tied(self.norm(self.lin(x)))

a, b = Net(), Net()
x = torch.ones(2, 2)
for n in range(3):
    a(x * n, mask=x)
    if n == 2:
        b(x)
"""


def test_parameters_and_buffers_once_and_root_inputs_in_each_step(tmp_path):
    (tmp_path / "app.py").write_text(SIGNED)
    _, passes = run(tmp_path, "capture: [{name: nothing}]\n", ["app.py"])
    assert len(passes) == 3
    state = ["lin/weight", "lin/bias", "norm/weight", "norm/bias"]
    state += [f"norm/{buffer}" for buffer in ("running_mean", "running_var", "num_batches_tracked")]
    state += ["tied/bias"]  # its weight is that of lin
    first = [f"{record.path}/{record.arg}" for record in passes[0].records() if record.role in ("param", "state")]
    assert first == state
    assert [[record.role for record in p.records()] for p in passes[1:2]] == [["input", "input"]]
    last = [(record.root, record.path, record.arg) for record in passes[2].records()]
    assert last == [
        ("", ".", "0"),
        ("", ".", "kwargs.mask"),
        *(("Net#1", *name.split("/")) for name in state),
        ("Net#1", ".", "0"),
    ]
    for seen in passes:
        for record in seen.records():
            assert record.hash and record.kept == ("meta", "hash") and record.bytes is None
            assert record.late == (record.arg == "kwargs.mask")  # seen after the call only
    _, passes = run(tmp_path, "signature: false\ncapture: [{name: nothing}]\n", ["app.py"])
    assert [len(list(p.records())) for p in passes] == [0, 0, 0]


TIED = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
model[1].weight = model[0].weight
for step in range(2):
    with torch.no_grad():
        model(torch.ones(3))
"""


@pytest.mark.parametrize("signature", ["true", "false"])
@pytest.mark.parametrize(("rule", "names"), [("name: '^1$'", {"1"}), ("class: Linear", {"0"})])
def test_a_tied_weight_is_recorded_under_the_name_asked_for(tmp_path, app, signature, rule, names):
    config = f"signature: {signature}\ncapture: [{{{rule}, role: [param], level: full}}]\n"
    _, passes = run(tmp_path, config, [app(TIED)])
    assert len(passes) == 2
    for seen in passes:
        weights = [r for r in seen.records() if r.key.endswith("@param#weight")]
        assert {r.path for r in weights if "payload" in r.kept} == names
        assert sum(r.path == "0" for r in weights) <= 1


PREDICATES = """
import torch

calls = []

def linear(name, module):
    calls.append(name)
    torch.manual_seed(99)  # a predicate that is careless
    return isinstance(module, torch.nn.Linear) and module.out_features == 3

def throws(name, module):
    raise RuntimeError(f"cannot say about {name}")

def leaves(name, module):
    raise SystemExit(3)

def runs_the_model(name, module):
    module(torch.ones(1, 2))
    return True

def answers_oddly(name, module):
    class Odd:
        def __bool__(self):
            raise ValueError("neither")
    return Odd()
"""
PREDICATE_JOB = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
for _ in range(2):
    print(model(torch.ones(1, 2)).tolist(), torch.rand(1).item())
"""


@pytest.mark.parametrize(
    ("function", "kept", "told"),
    [
        ("linear", {"0"}, None),
        ("throws", set(), "failed, its rule does not match: RuntimeError: cannot say about 0"),
        ("leaves", set(), "failed, its rule does not match: SystemExit: 3"),
        ("answers_oddly", set(), "failed, its rule does not match: ValueError: neither"),
    ],
)
def test_a_predicate_never_changes_the_job(tmp_path, function, kept, told):
    (tmp_path / "p.py").write_text(PREDICATES)
    (tmp_path / "app.py").write_text(PREDICATE_JOB)
    bare = execute([sys.executable, "app.py"], tmp_path)
    config = f"signature: false\ncapture: [{{leaf: true, where: {tmp_path}/p.py:{function}}}]\n"
    done, passes = run(tmp_path, config, ["app.py"])
    assert done.stdout == bare.stdout != ""
    assert [set(seen) for seen in passes] == [kept, kept]
    (directory,) = latest(tmp_path).ranks()[0]
    manifest = (directory / "manifest.tdm").read_bytes()
    if told:
        assert manifest.count(b"its rule does not match") == manifest.count(told.encode()) == 1
        assert done.stderr.count("its rule does not match") <= 1
    else:
        assert b"does not match" not in manifest


def test_a_predicate_may_run_modules(tmp_path):
    (tmp_path / "p.py").write_text(PREDICATES)
    (tmp_path / "app.py").write_text(PREDICATE_JOB.replace("nn.ReLU(), nn.Linear(3, 2)", "nn.ReLU()"))
    config = f"signature: false\ncapture: [{{class: Linear, where: {tmp_path}/p.py:runs_the_model}}]\n"
    _, passes = run(tmp_path, config, ["app.py"])
    assert [[call.name for call in seen.calls()] for seen in passes] == [["0"], ["0"]]  # only the job's own
