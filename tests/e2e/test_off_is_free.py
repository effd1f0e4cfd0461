"""Between recorded steps the module hooks are away and the steps are counted all the same; a job close to Python's
recursion limit stays below it."""

from __future__ import annotations

import json
import re
import sys

import pytest
import tdump
import torch
from conftest import BUILD, SOURCE, TDUMP_RUN, execute, latest

TRAINING = """
import copy, json, pickle, sys
import torch
from torch import nn
from torch.nn.modules import module as torch_module

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.rest = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    def forward(self, x):
        return self.rest(self.first(x))

torch.manual_seed(0)
net, loss, x = Net(), nn.MSELoss(), torch.randn(3, 4)
compiled = 0
def backend(graph, inputs):
    global compiled
    compiled += 1
    return graph.forward
call = torch.compile(net, backend=backend) if "compile" in sys.argv else net
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
hooks, outputs, pickled = [], [], []
for step in range(60):
    optimizer.zero_grad()
    y = call(x)
    hooks.append(len(torch_module._global_forward_hooks))
    outputs.append(y.detach().clone())
    loss(y, x).backward()
    optimizer.step()
    if step == 30:
        text = pickle.dumps(net)
        pickled = [b"tdump" in text, torch.equal(pickle.loads(text)(x), copy.deepcopy(net)(x))]
other = nn.Sequential(nn.Linear(4, 1))
with torch.no_grad():
    outputs.append(other(x))
hooks.append(len(torch_module._global_forward_hooks))
if "away" in sys.argv:
    raised = []
    for module in (net, other):
        try:
            module(torch.ones(2, 3))
        except RuntimeError as error:
            raised.append(str(error))
    outputs.append(torch.tensor(len(raised)))
torch.save(outputs, sys.argv[1])
json.dump({"hooks": hooks, "pickled": pickled, "compiled": compiled}, sys.stdout)
"""


def trained(app, cwd, config, *words):
    """What the job tells with and without tdump, and what it computed, which must be the same."""
    (cwd / "tdump.yaml").write_text(config)
    told, computed = [], []
    for name, command in {"plain": [], "dumped": [TDUMP_RUN, "-c", "tdump.yaml", "--"]}.items():
        done = execute([*command, sys.executable, app(TRAINING), name, *words], cwd)
        assert done.returncode == 0, done.stderr
        told.append(json.loads(done.stdout))
        computed.append(torch.load(cwd / name))
    assert all(torch.equal(a, b) for a, b in zip(*computed, strict=True))
    assert told[0]["pickled"] == told[1]["pickled"] == [False, True]
    return told, computed[0]


def test_the_hooks_are_away_between_recorded_steps(app, tmp_path):
    told, outputs = trained(app, tmp_path, "steps: 45-46\ncapture: [{level: full, role: output}]\n", "away")
    hooks = told[1]["hooks"]
    assert hooks[0] == 1  # they learn what is outermost
    assert hooks[25:45] == [0] * 20 and hooks[45:47] == [1, 1] and hooks[47:60] == [0] * 13
    assert hooks[60] == 1  # a model that was built since is seen
    passes = [tdump.load_pass(p) for p in latest(tmp_path).passes(0)]
    assert [p.info.local_step for p in passes] == [45, 46]
    for p, output in zip(passes, outputs[45:47], strict=True):
        assert torch.equal(p["."], output) and set(p) == {".", "first", "rest", "rest.0", "rest.1", "MSELoss"}


def test_a_rank_that_is_not_selected_rests_for_good(app, tmp_path):
    told, _ = trained(app, tmp_path, "ranks: 1\ncapture: [{level: full, role: output}]\n")
    assert set(told[1]["hooks"][25:60]) == {0}


def test_where_something_is_compiled_they_stay_and_nothing_is_compiled_anew(app, tmp_path):
    told, _ = trained(app, tmp_path, "steps: 20-21\ncapture: [{level: full, role: output}]\n", "compile")
    assert set(told[1]["hooks"]) == {1}
    assert told[0]["compiled"] == told[1]["compiled"] > 0


WRAPPED = """
import sys
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.linear(x)
net, calls = Net(), 0
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
inner = torch.nn.Module.__call__
def counting(self, *args, **kwargs):
    global calls
    calls += 1
    return inner(self, *args, **kwargs)
for step in range(60):
    if step == 30:
        inner = Net.__call__ if sys.argv[1] == "found" else inner
        Net.__call__ = counting
    net(torch.ones(4)).sum().backward()
    optimizer.step()
print(calls, Net.__call__ is counting)
"""


@pytest.mark.parametrize("inner", ["found", "torch"])  # what the job's wrapper calls: what was there, or torch's own
def test_a_wrapper_that_the_job_puts_there_meanwhile_stays(app, tmp_path, inner):
    command = [TDUMP_RUN, "--dump", "--steps", "0,45-46", "--", sys.executable, app(WRAPPED), inner]
    done = execute(command, tmp_path)
    assert (done.returncode, done.stdout) == (0, "30 True\n"), done.stderr
    assert [tdump.load_pass(p).info.local_step for p in latest(tmp_path).passes(0)] == [0, 45, 46]


HOT_STEPS = {  # count from step 30 to 47
    "python": [sys.executable, SOURCE / "tests" / "e2e" / "jobs" / "hot_steps.py", "30"],
    "c++": [BUILD / "tests" / "jobs" / "cxx_hot_path", "30"],
}
COUNTED = {"LD_PRELOAD": str(BUILD / "tests" / "jobs" / "count_allocations.so")}


@pytest.fixture(scope="module", params=HOT_STEPS)
def hot_steps(request, tmp_path_factory):
    """The job, and the threads that it has without tdump."""
    job = HOT_STEPS[request.param]
    plain = execute(job, tmp_path_factory.mktemp("plain"), COUNTED)
    assert plain.returncode == 0, plain.stderr
    return job, plain.stdout.splitlines()[-1]


@pytest.mark.parametrize("off", ["disabled", "another rank", "no step", "another step"])
def test_no_thread_is_started_and_no_step_allocates(off, tmp_path, hot_steps):
    job, threads_without_tdump = hot_steps
    choice = {"another rank": "ranks: 1", "no step": "steps: none", "another step": "steps: 1000"}.get(
        off, "steps: all"
    )
    (tmp_path / "tdump.yaml").write_text(f"{choice}\ncapture: [{{level: full, role: [input, output]}}]\n")
    environment = COUNTED | ({"TDUMP_DISABLE": "1"} if off == "disabled" else {})
    done = execute([TDUMP_RUN, "-c", "tdump.yaml", "--", *job], tmp_path, environment)
    assert done.returncode == 0, done.stderr
    *_, counts, threads = done.stdout.splitlines()
    assert threads == threads_without_tdump and "tdump" not in threads
    total, ours, texts = re.fullmatch(
        r"training 47 allocations (\d+) of tdump (\d+) texts \d+ of tdump (\d+)", counts
    ).groups()
    assert int(total) > 1000 and int(ours) == int(texts) == 0, done.stderr


DEEP = """
import sys, torch
class Deep(torch.nn.Module):
    def __init__(self, levels):
        super().__init__()
        if levels: self.below = Deep(levels - 1)
    def forward(self, x):
        return self.below(x) if hasattr(self, "below") else x + 1
sys.setrecursionlimit(10_000)
deep = Deep(200)
x = torch.zeros(1)
limit = 850  # four frames a level without hooks, enough for 200 levels; with hooks it would be five
sys.setrecursionlimit(limit)
print([float(deep(x)) for _ in range(3)])
"""


def test_a_deep_model_needs_no_higher_recursion_limit(app, tmp_path):
    (tmp_path / "tdump.yaml").write_text("steps: 1\ncapture: [{level: full, role: output}]\n")
    plain = execute([sys.executable, app(DEEP)], tmp_path)
    assert plain.stdout == "[1.0, 1.0, 1.0]\n", plain.stderr
    assert (
        "RecursionError" in execute([sys.executable, app(DEEP.replace("limit = 850", "limit = 790"))], tmp_path).stderr
    )
    dumped = execute([TDUMP_RUN, "-c", "tdump.yaml", "--", sys.executable, app(DEEP)], tmp_path)
    assert dumped.stdout == plain.stdout, dumped.stderr
    (p,) = [tdump.load_pass(file) for file in latest(tmp_path).passes(0)]
    assert len(p) == 201


CALLBACKS = """
import ctypes, os, torch
library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
enabled = library._ZN2at18hasGlobalCallbacksEv  # at::hasGlobalCallbacks()
enabled.restype = ctypes.c_bool
net, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
seen = []
for step in range(40):
    with torch.no_grad():
        net(x)
    seen.append(enabled())
print([step for step in range(40) if seen[step]])
"""


@pytest.mark.parametrize(
    ("choice", "expected"), [("steps: 30-31", [30, 31]), ("ranks: 1", []), ("steps: all", [*range(40)])]
)
def test_the_callback_of_operators_is_enabled_in_wanted_steps_only(choice, expected, app, tmp_path):
    (tmp_path / "tdump.yaml").write_text(
        f"{choice}\ncollect: {{aten: on}}\ncapture: [{{op: '.*', role: output, level: hash}}]\n"
    )
    done = execute([TDUMP_RUN, "-c", "tdump.yaml", "--", sys.executable, app(CALLBACKS)], tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout) == expected, done.stdout + done.stderr
