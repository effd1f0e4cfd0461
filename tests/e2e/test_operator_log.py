"""tdump-view --log: the calls of a step as a tree, against what the job itself says of its calls."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import tdump
import torch
from conftest import BUILD, SOURCE, TDUMP_RUN, Run, execute, mpirun

JOB = """
import json, torch, tdump

calls = []  # of modules, in the order in which they begin: name, depth

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(tdump.tap(self.up(x).relu(), "bent", "a tag"))

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(), Block()])
        self.head = torch.nn.Linear(8, 2)

    def forward(self, x, scale=1.0):
        for layer in self.layers:
            x = layer(x)
        try:
            self.head(x[:, :3])  # raises
        except RuntimeError:
            pass
        return self.head(x) * scale

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(4, 8), scale=0.5).sum().backward()
optimizer.step()
"""

DTENSOR_JOB = """
import os, torch
import torch.distributed as dist
from gloo_end import end_gloo
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

dist.init_process_group("gloo", init_method="file://" + os.path.abspath("store"),
                        rank=int(os.environ["OMPI_COMM_WORLD_RANK"]), world_size=2)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
parallelize_module(model, init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)),
                   {"0": ColwiseParallel(use_local_output=False), "2": RowwiseParallel()})
with torch.no_grad():
    model(torch.ones(3, 8))
end_gloo()
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("log")
    (cwd / "job.py").write_text(JOB)
    done = execute(
        [TDUMP_RUN, "-c", SOURCE / "configs" / "log.yaml", "-o", "run", "--", sys.executable, "job.py"],
        cwd,
        {"PYTHONPATH": str(BUILD / "python")},
    )
    assert done.returncode == 0, done.stderr
    return cwd


def view(cwd: Path, *arguments: str):
    return execute([BUILD / "bin" / "tdump-view", *arguments], cwd)


def log_json(cwd: Path, *arguments: str) -> list[dict]:
    done = view(cwd, *arguments, "--log", "--json")
    assert done.returncode == 0, done.stderr
    [one] = json.loads(done.stdout)["passes"]
    return one["calls"]


def forward_tree(calls: list[dict], kinds: set[str]) -> list[tuple[int, str]]:
    return [
        (call["depth"], call["name"] + ("" if call["call"] == 0 else f"::call{call['call']}"))
        for call in calls
        if call["phase"] == "forward" and call["kind"] in kinds
    ]


def test_every_module_stands_where_it_ran(run):
    layer = [(1, "layers.{}"), (2, "layers.{}.up"), (2, "layers.{}/bent"), (2, "layers.{}.down")]
    expected = [(0, ".")]
    expected += [(depth, name.format(n)) for n in range(2) for depth, name in layer]
    expected += [(1, "head"), (1, "head::call1")]
    assert forward_tree(log_json(run, "run"), {"module", "tap"}) == expected


def test_a_depth_says_what_intervals_say(run):
    """Of the forward, which is one thread: a call lies in those that began before it and have not ended."""
    calls = [call for call in log_json(run, "run") if call["phase"] == "forward"]
    assert [call["begin"] for call in calls] == sorted(call["begin"] for call in calls)
    raised = {call["begin"] for call in calls if call["threw"]}  # these have no end
    around: list[dict] = []
    for call in calls:
        if call["threw"] or call["parent"] in raised:
            continue
        while around and around[-1]["end"] < call["begin"]:
            around.pop()
        assert call["depth"] == len(around), call["name"]
        assert call["parent"] == (around[-1]["begin"] if around else 0), call["name"]
        around.append(call)
    # The operators of the optimizer lie in no call.
    operators = [call for call in calls if call["kind"] == "aten"]
    assert len(operators) >= 20 and {call["depth"] for call in operators} == {0, 1, 2, 3}


def test_the_text_tells_shapes_and_what_is_unusual(run):
    done = view(run, "run", "--log")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "step 0, rank 0"
    assert "  .  Net  (float32[4, 8]; kwargs.scale=0.5) -> float32[4, 2]" in lines
    assert "      layers.0.up  Linear  (float32[4, 8]) -> float32[4, 16]" in lines
    assert "        aten::addmm  (float32[16], float32[4, 8], float32[8, 16]) -> float32[4, 16]" in lines
    [raised] = [line for line in lines if line.endswith("  raised") and "head" in line]
    assert raised.startswith("    head  Linear  (float32[4, 3]")
    assert "  layers.0.up/aten::mm, backward  (float32[16, 4], float32[4, 8]) -> float32[16, 8]" in lines


def test_less_of_it(run):
    names = [call["name"] for call in log_json(run, "run", "--select", r"^layers\.1\.up$")]
    assert [name for name in names if name != "layers.1.up"] == [".", "layers.1"]  # around it, in forward
    taken = {call["name"] for call in log_json(run, "run:0/0/layers.1/bent") if call["taken"]}
    assert taken == {"layers.1/bent"}
    nothing = view(run, "run", "--log", "--select", "no such thing")
    assert nothing.returncode == 2 and "no record matches --select 'no such thing'" in nothing.stderr
    assert view(run, "run", "--log", "--step", "7").returncode == 2
    assert view(run, "run", "--log", "--nan").returncode == 2


def test_placements_of_distributed_tensors(tmp_path):
    (tmp_path / "job.py").write_text(DTENSOR_JOB)
    config = SOURCE / "configs" / "log.yaml"
    command = [TDUMP_RUN, "-c", config, "-o", "run", "--", sys.executable, "job.py"]
    done = mpirun(2, command, tmp_path, {"PYTHONPATH": str(SOURCE / "tests" / "e2e" / "jobs")})
    assert done.returncode == 0, done.stderr
    text = view(tmp_path, "run:0/1", "--log").stdout
    [first] = [line for line in text.splitlines() if line.startswith("    0  Linear")]
    assert "-> float32[3, 8] (Shard(dim=1),) on " in first and first.endswith("of [3, 16]"), first
    [last] = [line for line in text.splitlines() if line.startswith("    2  Linear")]
    assert "-> float32[3, 4] (Partial(sum),) on " in last, last


COLLECTIVES_JOB = """
import os, torch, tdump
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from gloo_end import end_gloo

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("store"), rank=rank, world_size=2)
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
tdump.step(0)
model(torch.full((3, 4), float(rank + 1))).sum().backward()
value = torch.full((5,), float(rank + 1), dtype=torch.float64)
dist.all_reduce(value, op=dist.ReduceOp.MAX)
parts = [torch.empty(2), torch.empty(2)]
dist.all_gather(parts, torch.full((2,), float(rank)))
whole = functional.all_gather_tensor(torch.full((2, 3), float(rank)), 0, dist.group.WORLD)
total = whole.sum()
dist.barrier()
tdump.step(1)
assert value.tolist() == [2.0] * 5 and parts[1].tolist() == [1.0, 1.0] and total == 6
end_gloo()
"""


def collectives(cwd, config):
    (cwd / "c.yaml").write_text(config)
    (cwd / "job.py").write_text(COLLECTIVES_JOB)
    command = [TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", sys.executable, "job.py"]
    done = mpirun(2, command, cwd, {"PYTHONPATH": f"{BUILD / 'python'}:{SOURCE / 'tests' / 'e2e' / 'jobs'}"})
    assert done.returncode == 0, done.stderr
    return done


def test_collectives_stand_among_the_operators(tmp_path):
    collectives(tmp_path, (SOURCE / "configs" / "log.yaml").read_text())
    text = view(tmp_path, "run:0/1", "--log").stdout
    calls = [line.strip() for line in text.splitlines() if "c10d" in line]
    reduced = [line for line in calls if line.startswith("c10d::allreduce_  (0.0: float64[5]")]
    assert len(reduced) == 1 and "group_size=2" in reduced[0] and "reduce_op=max" in reduced[0], text
    assert reduced[0].endswith("-> 0.0: float64[5]"), reduced
    [gathered] = [line for line in calls if line.startswith("c10d::allgather_  (1.0: float32[2]")]
    assert gathered.endswith("-> 0.0: float32[2], 0.1: float32[2]"), gathered
    [functional] = [line for line in calls if line.startswith("_c10d_functional::all_gather_into_tensor")]
    assert "(float32[2, 3]" in functional and functional.endswith("-> float32[4, 3]"), functional
    assert any(line.startswith("_c10d_functional::wait_tensor") for line in calls), text
    assert any(line.startswith("c10d::barrier") for line in calls), text
    # The gradients of weight and bias in one bucket, reduced in backward.
    assert any("c10d::allreduce_" in line and "float32[10]" in line for line in calls), text


def test_a_collective_has_what_it_was_given_and_no_values_of_what_it_makes(tmp_path):
    collectives(
        tmp_path, "steps: 0\ncollect: {aten: on, collectives: on}\ncapture: [{op: c10d, role: [input, output]}]\n"
    )
    for rank in range(2):
        dump = tdump.load_pass(Run(tmp_path / "run").passes(rank)[0])
        [given] = [
            r for r in dump.records() if r.name.endswith("c10d::allreduce_") and r.role == "input" and r.shape == (5,)
        ]
        assert dump[given.key].tolist() == [rank + 1.0] * 5
        made = [r for r in dump.records() if r.role == "output" and "wait_tensor" not in r.name]
        assert made and all(r.bytes is None and "not there yet" in r.reason_detail for r in made)
        [there] = [r for r in dump.records() if r.role == "output" and "wait_tensor" in r.name]
        assert dump[there.key].sum() == 6


def test_collectives_are_left_out_unless_asked_for(tmp_path):
    collectives(tmp_path, "steps: 0\ncollect: {aten: on}\ncapture: [{op: ., role: [input, output]}]\n")
    names = {r.name for r in tdump.load_pass(Run(tmp_path / "run").passes(0)[0]).records()}
    assert names and not any("c10d" in name for name in names)


STAT_JOB = """
import copy, json, sys, torch, tdump

class Pair(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.low, self.high = torch.nn.Linear(3, 4), torch.nn.Linear(3, 2)
        self.inner = torch.nn.Identity()

    def forward(self, x):
        return self.inner(self.low(x)), self.high(x)

class CountingFunctions(torch.overrides.TorchFunctionMode):
    seen = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        CountingFunctions.seen += 1
        return function(*args, **(kwargs or {}))

class Counting(torch.utils._python_dispatch.TorchDispatchMode):
    dispatched = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        Counting.dispatched += 1
        return function(*args, **(kwargs or {}))

torch.manual_seed(0)
model, other = Pair(), torch.nn.Linear(3, 3)
x = torch.randn(5, 3)
seen = []

def stat(tensor):
    assert not tensor.requires_grad
    other(torch.randn(1, 3))  # none of the job's
    if tensor.shape == (5, 2):
        raise ValueError("two columns")
    summary = {"norm": float(tensor.double().norm()), "first": tensor.flatten()[:2], "none": None}
    return summary if tensor.shape == (5, 4) else float(tensor.double().norm())

if "plain" not in sys.argv:
    log = tdump.log(stat)
    with tdump.log(stat=lambda x: "the inner one"):
        pass
torch.set_default_device("meta")  # where numbers have no values
with Counting(), CountingFunctions():
    low, high = model(x)
torch.set_default_device("cpu")
made = torch.nn.Parameter(torch.ones(2) + 1), torch.ones(3).as_subclass(torch.nn.Buffer)
assert copy.deepcopy(torch.nn.Linear(2, 2)).weight.requires_grad
(low.sum() + high.sum()).backward()
if "plain" not in sys.argv:
    again = tdump.log(stat)
    log.remove()
    log.remove()
    model(x)
    again.remove()
else:
    model(x)
model(x)
print(json.dumps({
    "low": low.double().norm().item(), "first": low.flatten()[:2].tolist(), "x": x.double().norm().item(),
    "drawn": torch.rand(1).item(), "gradient": model.low.weight.grad.norm().item(),
    "dispatched": Counting.dispatched,
    "functions": CountingFunctions.seen,
}))
"""
STAT_CONFIG = """
steps: all
collect: {aten: on}
capture:
  - {op: '.', role: [input, output], level: meta}
  - {name: '^(low|high|inner)$', role: [input, output, grad_output], phase: [forward, backward], level: full}
"""


@pytest.fixture(scope="module")
def summarised(tmp_path_factory):
    """What the job says without and with a function of tdump.log, and what was recorded in its three steps."""
    cwd = tmp_path_factory.mktemp("stat")
    (cwd / "job.py").write_text(STAT_JOB)
    (cwd / "c.yaml").write_text(STAT_CONFIG)
    importable = {"PYTHONPATH": str(BUILD / "python")}
    said = [execute([sys.executable, "job.py", *words], cwd, importable) for words in (["plain"], [])]
    said.append(execute([TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", sys.executable, "job.py"], cwd))
    assert [done.returncode for done in said] == [0, 0, 0], said[-1].stderr
    return cwd, [json.loads(done.stdout) for done in said], said[-1].stderr


def test_a_function_of_the_job_makes_what_is_kept(summarised):
    cwd, (plain, unused, truth), _ = summarised
    assert plain == unused == truth  # its numbers, its random numbers and its gradients
    first, still, second = map(tdump.load_pass, sorted((cwd / "run").rglob("pass*.tdp")))
    records = {(r.path, r.op, r.role, r.arg): r for r in first.records() if r.phase == "forward"}
    values = {place: torch.as_tensor(first.tensor(r)) for place, r in records.items() if "stat" in r.arg}
    assert values["low", "", "output", "stat.norm"].item() == truth["low"]
    assert values["low", "", "output", "stat.norm"].dtype == torch.float64
    assert values["low", "", "output", "stat.first"].tolist() == truth["first"]
    assert values["low", "", "input", "0.stat"].item() == truth["x"]
    assert values["low", "aten::addmm", "output", "stat.norm"].item() == truth["low"]
    # Of what has a summary no value is kept, and of what the function raised at none at all.
    assert {r.arg for r in records.values() if "payload" in r.kept} == {place[3] for place in values}
    assert ("high", "", "output", "stat") not in records and records["high", "", "output", ""].kept == ("meta",)
    assert not any("other" in r.path for r in first.records())
    assert records[".", "", "input", "0"].kept == ("meta", "hash")  # the signature's
    parameters = {(r.arg, r.kept) for r in first.records() if r.role == "param"}
    assert parameters == {(name, ("meta", "hash")) for name in ("weight", "bias")}
    gradients = {r.arg for r in first.records() if r.role == "grad_output" and r.path == "low"}
    assert gradients == {"", "stat.norm", "stat.first"}
    assert any("stat" in r.arg for r in still.records())
    assert not any("stat" in r.arg for r in second.records())
    assert {r.path for r in second.records() if "payload" in r.kept} == {"low", "high", "inner"}


def test_the_log_shows_what_it_made(summarised):
    cwd, (_, _, truth), _ = summarised
    text = view(cwd, "run", "--log", "--step", "0")
    [low] = [line for line in text.stdout.splitlines() if line.startswith("    low  Linear")]
    assert f"(float32[5, 3] stat={truth['x']!r})" in low and " -> float32[5, 4] stat.first=[" in low
    calls = log_json(cwd, "run", "--step", "0", "--select", "^low$")
    [output] = [a for call in calls for a in call["arguments"] if call["taken"] and a["role"] == "output"][:1]
    assert set(output["summary"]) == {"stat.norm", "stat.first"}
    assert float(output["summary"]["stat.norm"]) == truth["low"]
    coverage = view(cwd, "run", "--coverage")
    assert "tdump.log: the function raised ValueError: two columns" in coverage.stdout
