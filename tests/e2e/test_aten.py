"""The aten collector against a TorchDispatchMode that runs the same job without tdump."""

from __future__ import annotations

import re
import sys
from itertools import groupby

import pytest
import torch
from conftest import BUILD, SOURCE, TDUMP_RUN, Run, beside_reference, execute

JOB = [sys.executable, str(SOURCE / "tests" / "e2e" / "jobs" / "aten_job.py")]
CONFIG = """
steps: 0-3
collect: {aten: on}
capture:
  - {op: '.*', role: [input, output, before, after], phase: [forward, backward], level: full}
"""
PLAIN, PROFILED, SPECIAL, THREADS = range(4)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """What the reference saw, the passes, and the three outputs of the job."""
    return beside_reference(JOB, CONFIG, tmp_path_factory.mktemp("aten"))


def compared(steps, passes, step):
    """Calls and what the reference saw of them. Left out: operators that raised, which the reference has not; detach,
    which LibTorch calls for every saved output where a TorchDispatchMode is active; the profiler's marks."""
    seen = [c for c in calls_of(passes[step]) if not c.threw and c.op != "aten::detach"]
    return seen, [c for c in steps[step] if c[0] != "aten::detach" and not c[0].startswith("profiler::")]


def calls_of(p):
    return sorted((c for c in p.calls() if c.kind == "aten"), key=lambda c: c.begin)


def test_the_job_is_the_same_job(job):
    _, passes, (reference, bare, dumped) = job
    assert bare.stdout == dumped.stdout
    assert re.search(r"^sum .*$", bare.stdout, re.M)[0] == re.search(r"^sum .*$", reference.stdout, re.M)[0]
    assert len(passes) == 4  # the step after the selected ones left nothing


def test_the_profiler_sees_the_operators_of_the_job_only(job):
    _, _, (_, _, dumped) = job
    # Three linears, two norms; in backward two products a linear, one for the first: its input needs no gradient.
    assert "profiler [3, 2, 5]" in dumped.stdout


@pytest.mark.parametrize("step", [PLAIN, PROFILED, SPECIAL])
def test_operators_their_order_and_their_modules(job, step):
    steps, passes, _ = job
    seen, expected = compared(steps, passes, step)
    assert [c.op for c in seen] == [name for name, *_ in expected]
    assert [c.phase == "backward" for c in seen] == [backward for _, _, backward, _ in expected]
    forward = [(c.op, c.path) for c in seen if c.phase == "forward"]
    assert forward == [(name, path) for name, path, backward, _ in expected if not backward]
    assert len(expected) > 40


@pytest.mark.parametrize("step", [PLAIN, PROFILED, SPECIAL])
def test_values_of_inputs_outputs_and_written_arguments(job, step):
    steps, passes, _ = job
    p = passes[step]
    records: dict[int, dict] = {}
    for record in p.records():
        records.setdefault(record.call_begin, {})[record.role, record.arg] = record
    written = 0
    for call, (name, _, _, expected) in zip(*compared(steps, passes, step), strict=True):
        mine = records.get(call.begin, {})
        assert set(mine) == {(role, arg) for role, arg, _ in expected}, name
        for role, arg, tensor in expected:
            value = p.tensor(mine[role, arg])
            assert value.dtype == tensor.dtype and torch.equal(value, tensor), (name, role, arg)
            written += role == "after" and not torch.equal(tensor, p.tensor(mine["before", arg]))
    assert written >= 5


def test_special_operators(job):
    _, passes, _ = job
    calls = calls_of(passes[SPECIAL])
    by_name = {c.op: c for c in reversed(calls)}

    def places(name):
        return [(role, arg) for role, arg, _, _ in by_name[name].arguments]

    assert places("aten::split")[1:] == [("output", "0"), ("output", "1")]
    assert places("aten::_foreach_add_") == [(r, f"0.{i}") for r in ("before", "after") for i in range(2)]
    assert places("aten::topk") == [("input", "0"), ("output", "0"), ("output", "1")]
    assert places("aten::add")[-3:] == [("before", "kwargs.out"), ("output", ""), ("after", "kwargs.out")]
    assert places("demo::pair") == [("input", "0"), ("output", "0"), ("output", "1.0"), ("output", "1.1")]
    assert by_name["aten::_foreach_add_"].text == "overload=Scalar; scalar=1.5"
    assert by_name["aten::add"].text == "overload=out; alpha=2"
    raised = [c for c in calls if c.threw]
    assert [(c.op, c.end, places(c.op)[:1]) for c in raised] == [("aten::mm", 0, [("input", "0")])]


def test_backward_belongs_to_the_module_of_its_forward(job):
    _, passes, _ = job
    products = [c for c in calls_of(passes[PLAIN]) if c.phase == "backward" and c.op == "aten::mm"]
    linears = [path for path, _ in groupby(products, key=lambda c: c.path)]
    assert linears == ["head", "blocks.1.linear", "blocks.0.linear"]
    assert [c.index for c in products] == [0, 1, 0, 1, 0]
    norms = [c.path for c in calls_of(passes[PLAIN]) if c.op == "aten::native_layer_norm_backward"]
    assert norms == ["blocks.1.norm", "blocks.0.norm"]


def test_each_thread_has_its_lane_and_its_count(job):
    _, passes, _ = job
    forward = [c for c in calls_of(passes[THREADS]) if c.phase == "forward"]
    assert {c.lane for c in forward} == {0, 1, 2}
    assert all(c.lane == 0 for c in calls_of(passes[THREADS]) if c.phase == "backward")
    for lane in (1, 2):
        linear = [c for c in forward if c.lane == lane and c.op == "aten::addmm"]
        assert [(c.path, c.index) for c in linear] == [("blocks.0.linear", n) for n in range(5)]
        assert len({c.thread for c in linear}) == 1
    main = [c for c in forward if c.lane == 0 and c.op == "aten::addmm"]
    assert [(c.path, c.index) for c in main] == [("blocks.0.linear", 0), ("blocks.1.linear", 0), ("head", 0)]


UNUSUAL = ["compile_aot_eager", "make_fx", "vmap", "functional_grad", "fake", "functional", "subclass", "dtensor"]


def test_operators_on_tensors_that_stand_for_others_change_nothing(tmp_path):
    script = [sys.executable, str(SOURCE / "tests" / "e2e" / "jobs" / "not_captured.py"), *UNUSUAL]
    (tmp_path / "aten.yaml").write_text(CONFIG.replace("0-3", "all"))
    bare = execute(script, tmp_path, {"PYTHONPATH": str(BUILD / "python")})
    dumped = execute([TDUMP_RUN, "-c", "aten.yaml", "--", *script], tmp_path)
    assert dumped.returncode == bare.returncode == 0, dumped.stderr
    assert len(bare.stdout.splitlines()) == len(UNUSUAL) + 1 and dumped.stdout == bare.stdout


REPLACED = """
import tdump, torch

x = torch.ones(3)
tdump.step()
names = []
for turn in range(30):
    name = ("mine::first_one", "mine::other_one")[turn % 2]  # as long, so that memory is used again
    library = torch.library.Library("mine", "DEF")
    library.define(name.split("::")[1] + "(Tensor x) -> Tensor")
    library.impl(name.split("::")[1], torch.neg, "CPU")
    getattr(torch.ops.mine, name.split("::")[1])(x)
    names.append(name)
    library._destroy()
print(*names)
"""


def test_an_operator_that_takes_the_place_of_another_has_its_own_name(tmp_path):
    (tmp_path / "job.py").write_text(REPLACED)
    (tmp_path / "c.yaml").write_text(
        "steps: {select: all, boundary: explicit}\ncollect: {aten: on}\ncapture: [{op: '^mine::', level: meta}]\n"
    )
    command = [TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", sys.executable, "job.py"]
    done = execute(command, tmp_path, {"PYTHONPATH": str(BUILD / "python")})
    assert done.returncode == 0, done.stderr
    import tdump

    [path] = Run(tmp_path / "run").passes(0)
    assert [call.op for call in calls_of(tdump.load_pass(path))] == done.stdout.split()
