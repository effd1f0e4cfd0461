"""Script modules of odd kinds, none of which may cost a model its names."""

from __future__ import annotations

import sys

import pytest
import tdump
from conftest import TDUMP_RUN, execute, latest

BEGIN = """
import time
import torch
from torch import nn

class Part(nn.Module):
    def __init__(self, state):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("state", state)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)

x = torch.ones(1, 2)
"""
SPARSE = """
part = Part(torch.eye(2).to_sparse())
nn.Sequential(torch.jit.script(part), nn.Linear(2, 2))(x)
"""
MKLDNN = """
import torch.utils.mkldnn
model = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval()
with torch.no_grad():
    torch.utils.mkldnn.to_mkldnn(model)(x.to_mkldnn())
"""
NOT_COMPILED = """
class Script(torch.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    @torch.jit.script_method
    def forward(self, x):
        return self.linear(x)

nn.Sequential(Script(), nn.Linear(2, 2))(x)
"""
# What is asked of a module that is no container: whether it is true, equal to another, and its hash.
TRUTH = """
class Empty(Part):
    def __len__(self):
        return 0

    def __bool__(self):
        raise TypeError("no truth")

class Unhashed(Part):
    __hash__ = None

model = Empty(x)
model(x)
nn.MSELoss()(x, x)
unhashed = Unhashed(x)
first, script = Part(x), torch.jit.script(unhashed)
script(x)
"""
# One module at three places, two of them inside another that has no parameters but those: that is another one.
TWINS = """
inner = nn.Sequential(nn.Linear(2, 2))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Sequential(inner), inner, nn.Sequential(inner)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c(self.b(self.a(x)))

torch.jit.script(Net())(x)
"""
# It goes on in another thread where it has to wait. Until those of TorchScript rest the process must not end.
FORK = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Part(torch.ones(2)), Part(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        later = torch.jit.fork(self.a, x)
        return self.b(torch.jit.wait(later))

torch.jit.script(Net())(x)
time.sleep(2)
"""
FORK_IN_A_FUNCTION = """
def waits(x: torch.Tensor) -> torch.Tensor:
    return torch.jit.wait(torch.jit.fork(torch.neg, x))

class Net(Part):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = self.linear(waits(x))
        return x

torch.jit.script(Net(torch.ones(2)))(x)
time.sleep(2)
"""


def calls(cwd, job, config="", variables=None):
    (cwd / "job.py").write_text(BEGIN + job)
    (cwd / "c.yaml").write_text(f"steps: all\nsignature: false\ncapture: [{{level: full}}]\n{config}")
    command = [TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, "-W", "ignore", "job.py"]
    done = execute(command, cwd, variables or {})
    assert done.returncode == 0, done.stderr
    seen = [call for file in latest(cwd).passes(0) for call in tdump.load_pass(file).calls()]
    return [call.name for call in sorted(seen, key=lambda call: call.begin)], done.stderr


@pytest.mark.parametrize(
    ("job", "variables", "expected"),
    [
        (SPARSE, {}, [".", "0", "1"]),
        (MKLDNN, {}, [".", "0", "1"]),
        (NOT_COMPILED, {"PYTORCH_JIT": "0"}, [".", "0", "0.linear", "1"]),
        (TRUTH, {}, [".", "linear", "MSELoss", "Unhashed#1"]),
    ],
    ids=["sparse", "mkldnn", "not compiled", "truth"],
)
def test_a_model_keeps_its_names(tmp_path, job, variables, expected):
    names, said = calls(tmp_path, job, variables=variables)
    assert names == expected, said


def test_one_module_at_several_places_has_one_name(tmp_path):
    names, said = calls(tmp_path, TWINS, "compile: {taps: on}")
    once = ["a.0", "a.0.0"]
    assert names == [".", "a", *once, *once, "a", *once], said


@pytest.mark.parametrize("job", [FORK, FORK_IN_A_FUNCTION], ids=["fork", "in a function"])
def test_nothing_is_captured_in_what_waits_for_another_thread(tmp_path, job):
    names, said = calls(tmp_path, job, "compile: {taps: on}")
    assert names == ["."] and "waits for torch.jit.fork" in said, said
