"""Both halves of tdump.tap, tdump.tap_grad, taps on some ranks, lazy ones, and of DTensors; in eager and compiled code."""

from __future__ import annotations

import sys

import pytest
import tdump
import torch
from compiled_runs import FREE, JOBS, Runs
from conftest import TDUMP_RUN, Run, execute, latest, mpirun

TAPS = {
    "./both@output#0",
    "./both@output#1",
    "./both@grad_output#0~b",
    "./gradient@grad_output#~b",
    "./here@output#",
    "./lazy@output#",
    "./value@output#",
}


@pytest.fixture(scope="module")
def taps(tmp_path_factory):
    return Runs("taps.py", tmp_path_factory.mktemp("taps"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return Runs("recorded_modules.py", tmp_path_factory.mktemp("recorded"), taps="off")


def of_taps(captured):
    return {key: value for key, value in captured.items() if value[0].kind == "tap"}


@pytest.mark.parametrize("how", ["plain", "eager", "aot_eager"])
def test_each_tap_gives_the_halves_it_is_asked_for(taps, how):
    bare, dumped, captured, _ = taps(how)
    assert dumped == bare
    found = of_taps(captured)
    lazy = {"./lazy@output#"}
    assert set(found) == {(step, key) for step in range(2) for key in (TAPS if how == "plain" else TAPS - lazy)}
    value = found[0, "./value@output#"][1]
    if how == "plain":
        assert torch.equal(found[0, "./lazy@output#"][1], value * 2)
    assert torch.equal(found[0, "./gradient@grad_output#~b"][1], value * 2)
    assert torch.equal(found[0, "./both@grad_output#0~b"][1], value * 2)
    assert torch.equal(found[0, "./here@output#"][1], value)


@pytest.mark.parametrize("how", ["plain", "eager", "aot_eager"])
def test_compiled_code_records_modules_by_class_and_path(recorded, how):
    bare, dumped, captured, _ = recorded(how)
    assert dumped == bare
    found = of_taps(captured)
    names = {"Linear:0.0", "Tanh:0.1", "Sequential:0", "Linear:1", "Sequential:."}
    assert {(record.name, record.phase) for record, _ in found.values()} == {
        (name, phase) for name in names for phase in ("forward", "backward")
    }
    for key, (_, tensor) in of_taps(recorded("plain")[2]).items():
        assert torch.equal(found[key][1], tensor), key


ODD = """
import tdump, torch
calls = []
def lazy():
    calls.append(1)
    raise RuntimeError("no value")
x = torch.ones(2, requires_grad=True)
for step in range(3):
    tdump.step()
    assert tdump.tap(lazy, "raises") is lazy
    tdump.tap(x, "sideways", phase="sideways")
    tdump.tap_grad(torch.ones(1), "constant")
    tdump.tap_grad(x, "unasked")
print(len(calls))
"""


def test_lazy_values_are_computed_in_wanted_steps_only(tmp_path):
    (tmp_path / "app.py").write_text(ODD)
    (tmp_path / "c.yaml").write_text(
        "steps: [1]\nsignature: false\ncapture: [{name: '^(unasked|constant)$', role: [output], level: full}, {level: full}]\n"
    )
    done = execute([TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", sys.executable, "app.py"], tmp_path)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    (folder,) = Run(tmp_path / "run").ranks()[0]
    manifest = (folder / "manifest.tdm").read_bytes()
    assert b"tdump.tap('raises'): RuntimeError: no value" in manifest
    assert b"phase 'sideways' is none of forward, backward, both; both are taken" in manifest
    for name in (b"constant", b"unasked"):
        assert b"the gradient of the tap '" + name + b"' is not recorded: no rule asks for its grad_output" in manifest
    bare = execute([sys.executable, "app.py"], tmp_path, FREE)
    assert (bare.returncode, bare.stdout, bare.stderr) == (0, "0\n", "")


def manifest(runs, how):
    assert runs(how)[0]
    (folder,) = latest(runs.where(how)).ranks()[0]
    return (folder / "manifest.tdm").read_bytes()


def test_a_tensor_that_needs_no_gradient_is_told(taps):
    told = b"the gradient of the tap 'no gradient' is not recorded: the tensor needs none"
    assert told in manifest(taps, "plain")


def test_a_function_stays_out_of_compiled_code(taps):
    assert b"the tap 'lazy' of a function; not captured" in manifest(taps, "aot_eager")


LAZY = """
import sys, tdump, torch
def lazy():
    raise RuntimeError("no value")
def work(x):
    tdump.tap(lazy, "raises")
    return x * 2
work = torch.compile(work, backend="aot_eager", fullgraph=len(sys.argv) > 1)
for step in range(2):
    tdump.step()
    print(work(torch.ones(1)).item())
"""


@pytest.mark.parametrize("fullgraph", [[], ["fullgraph"]])
def test_a_function_that_raises_fails_no_compiled_job(tmp_path, fullgraph):
    (tmp_path / "app.py").write_text(LAZY)
    (tmp_path / "c.yaml").write_text("steps: [0]\ncompile: {taps: on}\ncapture: [{level: full}]\n")
    command = [TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", sys.executable, "app.py", *fullgraph]
    done = execute(command, tmp_path)
    assert (done.returncode, done.stdout) == (0, "2.0\n2.0\n"), done.stderr


CHECKPOINT = """
import tdump, torch
from torch.utils.checkpoint import checkpoint
inner = torch.nn.Linear(2, 2, bias=False)
torch.nn.init.eye_(inner.weight)
model = torch.nn.Sequential(inner)
def work(x):
    return tdump.tap_grad(model(x), "gradient")
tdump.instrument(model, record=True)
tdump.step()
x = torch.ones(1, 2, requires_grad=True)
(checkpoint(work, x, use_reentrant=True) * 3).sum().backward()
"""


def test_what_a_checkpoint_computes_again_is_no_gradient(tmp_path):
    (tmp_path / "app.py").write_text(CHECKPOINT)
    (tmp_path / "c.yaml").write_text(
        "signature: false\ncapture: [{role: [output, grad_output], phase: [forward, backward], level: full}]\n"
    )
    done = execute([TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", sys.executable, "app.py"], tmp_path)
    assert done.returncode == 0, done.stderr
    (file,) = Run(tmp_path / "run").passes(0)
    opened = tdump.load_pass(file)
    found = [
        (record.name, record.phase, record.recompute, opened.tensor(record).tolist())
        for record in opened.records()
        if record.kind == "tap" and record.name != "gradient"
    ]
    names, one, three = ("Linear:0", "Sequential:."), [[1.0, 1.0]], [[3.0, 3.0]]
    assert sorted(found) == sorted(
        (name, *rest)
        for name in names
        for rest in (("forward", False, one), ("forward", True, one), ("backward", False, three))
    )
    (folder,) = Run(tmp_path / "run").ranks()[0]
    assert b"is not recorded" not in (folder / "manifest.tdm").read_bytes()


EXPORTED = """
import tdump, torch
class Model(torch.nn.Module):
    def forward(self, x):
        tdump.tap(x * 2, "unused")
        return x + 1
for strict in (False, True):
    program = torch.export.export(Model(), (torch.ones(2),), strict=strict)
    print([str(node.target) for node in program.graph.nodes])
    tdump.step()
    print(program.module()(torch.ones(2)).tolist())
"""


def test_a_program_that_is_exported_may_run_without_tdump_so_it_has_no_taps(tmp_path):
    """E10: said, for there are none to record. With `compile: {taps: on}` it has those of its modules."""
    (tmp_path / "app.py").write_text(EXPORTED)
    (tmp_path / "c.yaml").write_text("signature: false\ncapture: [{level: full}]\n")
    bare = execute([sys.executable, "app.py"], tmp_path, FREE)
    done = execute([TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", sys.executable, "app.py"], tmp_path)
    assert (done.returncode, done.stdout) == (0, bare.stdout), done.stderr
    assert "tdump" not in bare.stdout and bare.stdout.count("[2.0, 2.0]") == 2
    assert "torch.compile or torch.export: taps in this region are traced; not captured" in done.stderr


LOOKED_AT = """
import sys, tdump, torch
fc = torch.nn.Linear(2, 2)
tdump.step()
y = fc(torch.ones(1, 2, requires_grad=True))
if len(sys.argv) > 1:
    tdump.print("y {} {:.1f}", y, 2.5, phase="both")
    tdump.inspector(fwd=lambda x: x.norm(), bwd=lambda g: g.norm())(y)
    torch.ops.tdump.inspect.default([y], [], [], "print", "s2:{}t", "all", "both", False)  # as an exported program
(y * 2).sum().backward()
"""


def test_to_look_adds_no_operator(tmp_path):
    (tmp_path / "app.py").write_text(LOOKED_AT)
    (tmp_path / "c.yaml").write_text(
        "signature: false\ncollect: {aten: on}\n"
        "capture: [{op: '.*', role: [input, output], phase: [forward, backward], level: full}]\n"
    )
    found = []
    for words in ([], ["look"]):
        command = [TDUMP_RUN, "-c", "c.yaml", "-o", f"run{words}", "--", sys.executable, "app.py", *words]
        done = execute(command, tmp_path)
        assert done.returncode == 0, done.stderr
        (file,) = Run(tmp_path / f"run{words}").passes(0)
        found.append([record.key for record in tdump.load_pass(file).records()])
    assert found[0] and found[1] == found[0]


@pytest.mark.parametrize("how", ["plain", "aot_eager"])
def test_dtensors_by_part_or_whole(tmp_path, how):
    (tmp_path / "c.yaml").write_text("signature: false\ncapture: [{level: full}]\n")
    command = [sys.executable, JOBS / "whole_dtensor.py", how, f"file://{tmp_path}/meet"]
    if how == "plain":
        command = [TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", *command]
    script = 'RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE exec "$@"'
    done = mpirun(2, ["sh", "-c", script, "sh", *command], tmp_path, FREE)
    assert done.returncode == 0, done.stderr
    whole, gradient = [2.0, 4.0, 6.0, 8.0], [4.0, 8.0, 12.0, 16.0]
    for rank, printed in enumerate(done.printed):
        part = slice(2 * rank, 2 * rank + 2)
        lines = printed.splitlines()
        assert lines[:2] == [f"[rank {rank}][part][fwd] {whole[part]}", f"[rank {rank}][whole][fwd] {whole}"]
        if rank == 1:
            assert lines.pop(2) == "[rank 1] torch.Size([4]) tensor([2., 4., 6., 8.])"
        assert sorted(lines[2:]) == [
            f"[rank {rank}][part][bwd] {gradient[part]}",
            f"[rank {rank}][whole][bwd] {gradient}",
        ]
    if how == "plain":
        found = [tdump.load_pass(file) for rank in range(2) for file in Run(tmp_path / "run").passes(rank)]
        assert [p["part"].tolist() for p in found] == [[3.0, 6.0], [9.0, 12.0]]
        assert found[0]["whole"].tolist() == [3.0, 6.0, 9.0, 12.0] and "whole" not in found[1]
        assert not any("lazy" in record.name for p in found for record in p.records())
        for rank in range(2):
            (folder,) = Run(tmp_path / "run").ranks()[rank]
            assert b"tdump.tap('lazy'): full of a function; not recorded" in (folder / "manifest.tdm").read_bytes()
