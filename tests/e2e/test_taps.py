"""Both halves of tdump.tap, tdump.tap_grad, taps on some ranks, lazy ones, and of DTensors; in eager and compiled code."""

from __future__ import annotations

import sys

import pytest
import tdump
import torch
from compiled_runs import FREE, JOBS, Runs
from conftest import TDUMP_RUN, Run, execute, mpirun

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
    assert set(found) == {(step, key) for step in range(2) for key in TAPS}
    value = found[0, "./value@output#"][1]
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


def test_a_tensor_that_needs_no_gradient_is_told(taps):
    assert taps("plain")[0]
    (folder,) = (taps.folder / "plain" / "outputs" / "latest").resolve().glob("rank0_*")
    told = b"the gradient of the tap 'no gradient' is not recorded: the tensor needs none"
    assert told in (folder / "manifest.tdm").read_bytes()


@pytest.mark.parametrize("how", ["plain", "aot_eager"])
def test_dtensors_by_part_or_whole(tmp_path, how):
    (tmp_path / "c.yaml").write_text("signature: false\ncapture: [{level: full}]\n")
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29591"}
    command = [sys.executable, JOBS / "whole_dtensor.py", how]
    if how == "plain":
        command = [TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", *command]
    script = 'RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE exec "$@"'
    done = mpirun(2, ["sh", "-c", script, "sh", *command], tmp_path, FREE | environment)
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
