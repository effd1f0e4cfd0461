"""Both halves of tdump.tap, tdump.tap_grad, taps on some ranks, and lazy ones; in eager and compiled code."""

from __future__ import annotations

import sys

import pytest
import torch
from compiled_runs import FREE, Runs
from conftest import TDUMP_RUN, Run, execute

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
