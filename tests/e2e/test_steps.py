"""What begins a step, by each rule of `steps.boundary`, in Python and in a C++ program; jobs without any; forks.

Evaluation and training in turns: test_capture_modes.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tdump
import torch
from conftest import BUILD, TDUMP_RUN, execute, latest

JOBS = Path(__file__).parent / "jobs"
LIN = "capture: [{name: 'lin$', role: [input], level: full}]\n"

# The batches that each step of jobs/steps.py holds, worked out by hand. A loss is called after the model.
STEPS = {
    "auto": ([[1, 2], [3], [4, 5], [6], [7, 8], [9]], "optimizer (SGD)"),
    "optimizer": ([[1, 2], [3, 4, 5], [6, 7, 8], [9]], "optimizer (SGD)"),
    # Batch 3 has no backward: what follows belongs to its step.
    "backward": ([[1], [2], [3, 4], [5], [6, 7], [8], [9]], "backward"),
    "forward": ([[n] for n in range(1, 10)], "forward (Net)"),
    # Begins with the loss of batch 1; nothing before it is in a step.
    "forward:MSELoss": ([[2], [3, 4], [5], [6, 7], [8], [9]], "forward:MSELoss"),
    "op:mse_loss$": ([[2], [3, 4], [5], [6, 7], [8], [9]], "op:mse_loss$"),
    "explicit": ([[1, 2, 3], [4, 5, 6], [7, 8, 9]], "explicit (tdump.step)"),
}


def run(cwd: Path, config: str, command: list[str]):
    (cwd / "c.yaml").write_text(config)
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", *command], cwd)
    assert done.returncode == 0, done.stderr
    return done


def batches(file: Path, name: str) -> list[int]:
    """The first element of each input of `name`, in order."""
    seen = tdump.load_pass(file)
    records = [r for r in seen.records() if r.name == name and r.role == "input" and r.arg == "0"]
    return [int(torch.as_tensor(seen.tensor(r)).flatten()[0]) for r in records]


@pytest.mark.parametrize("rule", STEPS)
def test_what_begins_a_step(tmp_path, rule):
    expected, told = STEPS[rule]
    config = f"steps: {{select: all, boundary: '{rule}'}}\n{LIN}"
    done = run(tmp_path, config, [sys.executable, str(JOBS / "steps.py"), rule])
    numbered = "numbered by the program" if rule == "explicit" else "numbered from 0"
    assert f"tdump: step = {told}, {numbered}; writing all steps on 1 rank\n" in done.stderr
    steps = [batches(file, "lin") for file in latest(tmp_path).passes(0)]
    assert [step for step in steps if step] == expected


def test_a_job_without_a_boundary_is_told(tmp_path):
    config = f"steps: {{select: all, boundary: explicit}}\n{LIN}"
    done = run(tmp_path, config, [sys.executable, str(JOBS / "steps.py")])
    assert "tdump: step = none seen" in done.stderr
    assert "no step boundary was seen (steps.boundary: explicit (tdump.step)), nothing was recorded" in done.stderr
    assert latest(tmp_path).passes(0) == []


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_cxx_optimizers(tmp_path, optimizer):
    program = BUILD / "tests" / "jobs" / "cxx_steps"
    # No module is called: with 'auto' nothing tells of the first step before its optimizer does.
    rule = "steps: {select: all, boundary: optimizer}\ncollect: {aten: on}\n"
    config = rule + "capture: [{op: '^aten::mm$', role: [input], level: full}]\n"
    bare = execute([program, optimizer], tmp_path)
    done = run(tmp_path, config, [str(program), optimizer])
    assert done.stdout == bare.stdout and len(done.stdout.split()) == 6
    steps = []
    for file in latest(tmp_path).passes(0):
        seen = tdump.load_pass(file)
        inputs = [r for r in seen.records() if (r.op, r.phase, r.arg) == ("aten::mm", "forward", "0")]
        steps.append([float(torch.as_tensor(seen.tensor(r)).flatten()[0]) for r in inputs])
        assert seen.info.mode == "train"
    # The second optimizer, which steps right after the first, begins no step of its own.
    assert [step for step in steps if step] == [[1, 2], [3, 4], [5, 6]]
    assert "tdump: step = optimizer, numbered from 0" in done.stderr  # none exists yet when the first step begins


def test_the_class_of_a_cxx_optimizer_is_told(tmp_path):
    program = BUILD / "bin" / "examples" / "tp_transformer"
    done = run(tmp_path, "steps: 0\ncapture: [{level: hash}]\n", [str(program)])
    assert "tdump: step = optimizer (torch::optim::AdamW), numbered from 0" in done.stderr


def test_forked_children_write_nothing(tmp_path):
    done = run(tmp_path, "steps: all\ncapture: [{leaf: true, level: full}]\n", [sys.executable, str(JOBS / "forks.py")])
    assert done.stdout == "[0, 1, 2, 3, 4]\n"
    (directory,) = latest(tmp_path).ranks()[0]
    assert sorted(latest(tmp_path).ranks()) == [0]
    seen = [tdump.load_pass(file) for file in latest(tmp_path).passes(0)]
    assert [len(list(one)) for one in seen] == [1, 1, 1]  # one output each, whole files
    assert all(one.verify() == [] for one in seen)
    assert len(list(directory.glob("*.tdp*"))) == 3
    assert done.stderr.count("tdump: COMPLETE") == 1
