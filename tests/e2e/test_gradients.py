"""Gradients and optimizer state, against what torch's own hooks see of the same job without tdump."""

from __future__ import annotations

import re
import sys
from collections import Counter

import pytest
import torch
from conftest import BUILD, SOURCE, TDUMP_RUN, beside_reference, execute, latest

JOB = [sys.executable, str(SOURCE / "tests" / "e2e" / "jobs" / "gradients.py")]
CONFIG = """
steps: all
signature: false
collect: {aten: on}
capture:
  gradients: [{role: [grad_input, grad_output, param_grad], level: full}]
  state: [{role: [state], level: full}, {role: [param], steps: 2-3, level: full}]
  others: [{role: [input, output], level: hash}]
  operators: [{op: '.', role: [output], phase: [backward], level: meta}]
"""
STEPS = [
    "plain",
    "micro_batches",
    "late_backward",
    "two_backwards",
    "recomputed",
    "other_thread",
    "without_gradients",
    "second_order",
    "changed_by_the_job",
]


# Torch has no gradient of a view that was written in place, as the block's ReLU does. Older releases give such a view.
LINEAR_GIVES_A_VIEW = torch.nn.Linear(1, 1)(torch.zeros(1, 1, 1))._is_view()


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """What torch's hooks saw, the passes of the train steps, and the results of the jobs."""
    steps, passes, runs = beside_reference(JOB, CONFIG, tmp_path_factory.mktemp("gradients"))
    return steps, [p for p in passes if p.info.mode == "train"], runs


def gradients_of(seen):
    return [r for r in seen.records() if r.role in ("grad_input", "grad_output", "param_grad")]


def test_the_job_is_the_same_job(job):
    _, passes, (reference, bare, dumped) = job
    assert bare.stdout == dumped.stdout == reference.stdout
    assert "digest" in bare.stdout and len(passes) == len(STEPS)


@pytest.mark.parametrize("step", STEPS)
def test_gradients_are_those_of_torch(job, step):
    (steps, _), passes, _ = job
    seen, expected = passes[STEPS.index(step)], steps[STEPS.index(step)]
    lost = {(r.role, r.path) for r in gradients_of(seen) if r.bytes is None}
    assert lost == ({("grad_output", "block.linear"), ("grad_input", "block.act")} if LINEAR_GIVES_A_VIEW else set())
    kept = [r for r in gradients_of(seen) if (r.role, r.path) not in lost]
    mine = {
        (r.role, r.path, r.arg, r.call, r.micro, r.recompute): torch.from_numpy(seen.tensor(r).numpy().copy())
        for r in kept
    }
    theirs = {tuple(fields): tensor for *fields, tensor in expected}
    assert set(mine) == set(theirs)
    for key, tensor in theirs.items():
        assert mine[key].dtype == tensor.dtype and torch.equal(mine[key], tensor), key
    assert len(mine) == len(kept) >= 20  # no key twice
    assert {(r.phase, r.lane) for r in gradients_of(seen)} == {("backward", 0)}


def test_the_cases_are_there(job):
    """That the job does what the tests above are about."""
    _, passes, _ = job

    def keys(step, role, path):
        records = [r for r in gradients_of(passes[STEPS.index(step)]) if r.role == role and r.path == path]
        return sorted((r.micro, r.call, r.recompute) for r in records)

    assert keys("plain", "grad_output", "block") == [(0, 0, False), (0, 1, False)]
    assert keys("micro_batches", "grad_output", "head") == [(n, 0, False) for n in range(3)]
    assert keys("late_backward", "grad_output", "head") == [(0, 0, False), (1, 0, False)]
    # Both backward passes of a call that the forward made twice.
    assert keys("two_backwards", "grad_output", "block") == [(0, n, False) for n in range(4)]
    assert (0, 0, True) in keys("recomputed", "grad_output", "block.linear")
    assert Counter(r.arg for r in gradients_of(passes[STEPS.index("plain")]) if r.path == "pair") == {
        "0": 1,
        "kwargs.scale": 1,
        "twice": 1,
        "both.0": 1,
        "both.1": 1,
    }


def test_what_the_optimizer_keeps(job):
    (_, states), passes, _ = job
    for seen, expected in zip(passes, states, strict=True):
        records = [r for r in seen.records() if r.role == "state"]
        mine = {(f"{r.path}.{r.arg}", r.call): torch.from_numpy(seen.tensor(r).numpy().copy()) for r in records}
        assert len(mine) == len(records) == len(expected) >= 15
        for parameter, name, tensor in expected:  # weight, exp_avg
            assert torch.equal(mine[f"{parameter}.{name}", 0], tensor), (parameter, name)
        assert {(r.phase, r.lane, r.micro) for r in records} == {("forward", 0, 0)}


def test_parameters_at_chosen_steps(job):
    """A rule's own steps; all parameters, as they are before the step's forward."""
    _, passes, _ = job
    parameters = [[f"{r.path}.{r.arg}" for r in p.records() if r.role == "param"] for p in passes]
    assert [len(names) for names in parameters] == [0, 0, 7, 7] + [0] * (len(STEPS) - 4)
    assert "block.linear.weight" in parameters[2]
    assert all(set(r.kept) == {"meta", "hash", "payload"} for r in passes[3].records() if r.role == "param")


BACKWARD = {
    ("aten::embedding_dense_backward", "embed"),
    ("aten::mm", "block.linear"),
    ("aten::threshold_backward", "block.act"),
    ("aten::native_layer_norm_backward", "block.norm"),
    ("aten::mm", "head"),
}


@pytest.mark.parametrize("step", ["plain", "micro_batches", "recomputed", "other_thread", "second_order"])
def test_backward_operators_are_below_the_module_of_their_forward(job, step):
    _, passes, _ = job
    calls = [c for c in passes[STEPS.index(step)].calls() if c.kind == "aten" and c.phase == "backward"]
    names = {op for op, _ in BACKWARD}
    found = Counter((c.op, c.path) for c in calls if c.op in names and not c.recompute)
    assert set(found) >= BACKWARD
    # Nothing of theirs stands below another module; the view and the sums are the root's own.
    assert {key for key in found if key not in BACKWARD} <= {("aten::mm", "."), ("aten::mm", "")}
    if step == "plain":
        assert found["aten::threshold_backward", "block.act"] == 2  # shared: called twice
    # The sum for a bias is made by the engine after the node; only the accumulation itself has no module.
    assert all(c.path != "" for c in calls if c.op == "aten::sum")
    assert {c.lane for c in calls if c.path} == {0}


def test_order_is_that_of_the_backward(job):
    _, passes, _ = job
    outputs = [(r.path, r.call) for r in gradients_of(passes[0]) if r.role == "grad_output"]
    assert outputs[0][0] in (".", "head")
    assert outputs.index(("head", 0)) < outputs.index(("block.norm", 1)) < outputs.index(("block.linear", 1))
    assert outputs.index(("block.linear", 1)) < outputs.index(("block.norm", 0)) < outputs.index(("embed", 0))


MEMORY = [sys.executable, str(SOURCE / "tests" / "e2e" / "jobs" / "gradient_memory.py")]
EVERY = "role: [input, output, grad_input, grad_output, param_grad]"


def test_hooks_on_every_module_keep_no_gradient_alive(tmp_path):  # E22
    """A filter that asks for all gradients and takes none of them."""
    (tmp_path / "c.yaml").write_text(f"steps: all\ncapture: [{{{EVERY}, numel: 0}}]\n")
    bare = execute([*MEMORY, "peak"], tmp_path)
    dumped = execute([TDUMP_RUN, "-c", "c.yaml", "--", *MEMORY, "peak"], tmp_path)
    peaks = [int(re.search(r"^peak (\d+)$", done.stdout, re.M)[1]) for done in (bare, dumped)]
    assert peaks[0] > 3 << 20 and abs(peaks[1] - peaks[0]) <= peaks[0] / 100


def test_resident_memory_stays_flat(tmp_path):  # E21
    # Steps of a millisecond: the arena fills, however large it is, and its pages count as resident.
    memory = "memory: {host: 16MiB, max_block: 100%}"
    (tmp_path / "c.yaml").write_text(f"steps: all\n{memory}\ncapture: [{{{EVERY}, level: hash}}]\n")
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", *MEMORY, "flat"], tmp_path)
    assert done.returncode == 0 and "COMPLETE" in done.stderr, done.stderr
    early, evaluated, warm, trained = map(int, re.search(r"^resident (.*)$", done.stdout, re.M)[1].split())
    assert evaluated - early < 16 << 10 and trained - warm < 16 << 10  # KiB


# Each forward has an object that autograd keeps as long as the graph. Some graphs are dropped without a backward.
GRAPHS = """
import gc, weakref, torch
class Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark = Mark()
        marks.append(weakref.ref(ctx.mark))
        return x * 2
    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2
class Mark:
    pass
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(3, 3), torch.nn.ReLU()
    def forward(self, x):
        return self.last(Marked.apply(self.first(x)))
marks, alive = [], []
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
gc.disable()  # by reference counts alone
for step in range(4):
    for micro in range(8):
        out = net(torch.ones(2, 3, requires_grad=True))
        if micro % 2:
            out.sum().backward()
        del out
        alive.append(sum(mark() is not None for mark in marks))
    optimizer.step()
print(len(marks), alive)
"""


def test_no_graph_is_kept_alive(tmp_path, app):  # E21
    everything = "role: [input, output, before, after, grad_input, grad_output, param, param_grad, state]"
    (tmp_path / "c.yaml").write_text(
        f"steps: all\ncollect: {{aten: on}}\ncapture: [{{{everything}, phase: [forward, backward], level: full}},"
        " {op: '.', role: [input, output, before, after], phase: [forward, backward], level: full}]\n"
    )
    bare = execute([sys.executable, app(GRAPHS)], tmp_path)
    dumped = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, app(GRAPHS)], tmp_path)
    assert dumped.returncode == 0, dumped.stderr
    assert dumped.stdout == bare.stdout == f"32 {[0] * 32}\n"
    assert len(latest(tmp_path).passes(0)) == 4


def test_backward_passes_of_every_kind_are_left_alone(tmp_path):
    """Also where nothing is recorded: transforms, compiled regions, compiled autograd."""
    import tdump

    script = [sys.executable, "-W", "ignore", str(SOURCE / "tests" / "e2e" / "jobs" / "gradient_edges.py")]
    (tmp_path / "c.yaml").write_text(f"steps: all\ncapture: [{{{EVERY[:-1]}, state], level: full}}]\n")
    bare = execute(script, tmp_path)
    dumped = execute([TDUMP_RUN, "-c", "c.yaml", "--", *script], tmp_path)
    assert bare.returncode == 0 and dumped.returncode == 0, dumped.stderr
    assert dumped.stdout == bare.stdout and "anomaly " in bare.stdout
    assert "could not" not in dumped.stderr and "cannot" not in dumped.stderr, dumped.stderr
    passes = [tdump.load_pass(file) for file in latest(tmp_path).passes(0)]
    train = [p for p in passes if p.info.mode == "train"]
    first = Counter((r.role, r.path, r.arg) for r in train[0].records() if r.role.startswith("grad"))
    assert first["grad_output", "odd", "0.0"] == 1 and ("grad_output", "odd", "3.unused") not in first
    # The gradient of a tensor that is fed to the model again and again: one record a backward, not one a hook.
    leaf = [r for r in train[1].records() if (r.role, r.path, r.arg) == ("grad_input", ".", "0")]
    assert [(r.micro, r.call) for r in leaf] == [(0, 0), (1, 0), (2, 0)]


STEPPED = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1, 4):
    (model(torch.ones(1, 2)) * step).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize("boundary", ["optimizer", "backward", "forward"])
def test_gradients_are_in_the_pass_of_their_step(boundary, tmp_path, app):
    import tdump

    (tmp_path / "c.yaml").write_text(
        f"steps: {{select: all, boundary: {boundary}}}\nsignature: false\n"
        "capture: [{leaf: true, role: [grad_output, param_grad, state], level: full}]\n"
    )
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, app(STEPPED)], tmp_path)
    assert done.returncode == 0 and "without a backward" not in done.stderr, done.stderr
    passes = [tdump.load_pass(file) for file in latest(tmp_path).passes(0)]
    for step, p in enumerate(passes, 1):
        assert [(r.role, r.arg, r.call) for r in p.records()][:1] == [("grad_output", "", 0)]
        assert p["0@grad_output#"].item() == p["0@param_grad#bias"].item() == step
    assert len(passes) == 3


def weights_of_diff(tmp_path, app, jobs) -> str:
    """What tdump-diff says of the runs of two jobs of which parameters and their gradients were kept."""
    (tmp_path / "c.yaml").write_text("capture: [{role: [param, state, param_grad], level: full}]\n")
    for name, text in zip("ab", jobs, strict=True):
        job = app("torch_seed = __import__('torch').manual_seed(0)" + text, f"{name}.py")
        done = execute([TDUMP_RUN, "-c", "c.yaml", "-o", name, "--", sys.executable, job], tmp_path)
        assert done.returncode == 0, done.stderr
    return execute([BUILD / "bin" / "tdump-diff", "a", "b"], tmp_path).stdout


def test_weights_that_follow_from_other_gradients_are_not_told(tmp_path, app):
    """Parameters of later steps and what the optimizer keeps depend on what was computed."""
    told = weights_of_diff(tmp_path, app, (STEPPED, STEPPED.replace("* step", "* (step + 1)")))
    assert "weights   2 of 2 parameters equal" in told, told


def test_weights_that_an_optimizer_parts_are_told(tmp_path, app):
    """With and without momentum the first update is the same, the second is not."""
    rates = STEPPED.replace("SGD(", "SGD(momentum=0.9, params="), STEPPED.replace("SGD(", "SGD(params=")
    told = weights_of_diff(tmp_path, app, rates)
    assert "weights   2 of 2 parameters equal on every rank at step 0\n" in told, told
    assert "not on rank 0 from step 2 on: 0.bias\n" in told and "not on rank 0 from step 2 on: 0.weight" in told, told


def test_a_job_without_a_backward_is_told(tmp_path, app):
    (tmp_path / "c.yaml").write_text("capture: [{leaf: true, role: [output, grad_output], level: hash}]\n")
    job = app("import torch\nmodel = torch.nn.Linear(2, 1)\nfor n in range(3): model(torch.ones(1, 2))\n")
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, job], tmp_path)
    assert "gradients were asked for, but calls ended without a backward" in done.stderr


def test_outputs_that_nobody_uses_are_no_calls_without_a_backward(tmp_path, app):
    (tmp_path / "c.yaml").write_text("capture: [{leaf: true, role: [output, grad_output], level: hash}]\n")
    job = app(
        "import torch\nlstm, head = torch.nn.LSTM(4, 3), torch.nn.Linear(3, 1)\n"
        "for n in range(2):\n    y = lstm(torch.ones(5, 2, 4))[0]\n    head(y).sum().backward()\n"
    )
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, job], tmp_path)
    assert "tdump: COMPLETE  " in done.stderr and "without a backward" not in done.stderr, done.stderr
    import tdump

    passes = [tdump.load_pass(path) for path in latest(tmp_path).passes(0)]
    gradients = [record for p in passes for record in p.records() if record.role == "grad_output"]
    assert {(record.root, record.arg) for record in gradients} == {("", "0"), ("Linear#1", "")}, gradients
    assert len(gradients) == 4  # one of each in two steps


# A view that its ReLU writes in place; where a module made another one, nothing is lost.
IN_PLACE = """
import torch
from torch.nn import Conv2d, Flatten, Identity, Linear, ReLU
flatten, relu = {parts}
model = torch.nn.Sequential(Conv2d(1, 2, 3, padding=1), flatten, relu, Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    model(torch.ones(2, 1, 4, 4)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "parts, lost",
    [
        ("Flatten(), ReLU(inplace=True)", ["1@grad_output#~b", "2@grad_input#0~b"]),
        ("Flatten(), ReLU()", []),
        ("Flatten(), Identity()", []),
        ("ReLU(inplace=True), Flatten()", []),
    ],
)
def test_gradients_of_views_written_in_place_are_told(tmp_path, app, parts, lost):
    gradients = "{leaf: true, role: [grad_output, grad_input], level: full}"
    (tmp_path / "c.yaml").write_text(f"capture: [{gradients}, {{role: [param], level: hash}}]\n")
    job = [sys.executable, app(IN_PLACE.replace("{parts}", parts))]
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", *job], tmp_path)
    assert done.returncode == 0, done.stderr
    reason = "autograd has no gradient of a view once it was written in place"
    assert (f"not kept   4 records: {reason} (rank 0)\n" in done.stderr) == bool(lost), done.stderr
    assert ("tdump: COMPLETE  " in done.stderr) == (not lost), done.stderr

    import tdump

    for file in latest(tmp_path).passes(0):
        records = list(tdump.load_pass(file).records())
        assert sum(record.role.startswith("grad_") for record in records) == 7, records
        assert sorted(record.key for record in records if record.reason) == lost


def test_views_written_in_place_without_a_backward_lose_nothing(tmp_path, app):
    (tmp_path / "c.yaml").write_text("capture: [{leaf: true, role: [grad_output], level: full}]\n")
    forward = IN_PLACE.replace("{parts}", "Flatten(), ReLU(inplace=True)").replace(".sum().backward()", "")
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, app(forward)], tmp_path)
    assert done.returncode == 0 and "calls ended without a backward" in done.stderr, done.stderr
    assert "in place" not in done.stderr and "not kept" not in done.stderr, done.stderr
