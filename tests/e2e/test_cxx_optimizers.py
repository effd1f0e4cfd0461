"""Gradients, optimizer state and steps of a C++ program, for each optimizer of LibTorch, against what it prints."""

from __future__ import annotations

import pytest
from conftest import BUILD, TDUMP_RUN, execute, latest

APP = BUILD / "tests" / "jobs" / "cxx_optimizers"
CONFIG = """
steps: all
signature: false
capture: [{role: [state, param_grad], level: full}, {role: [output], level: meta}]
"""
OPTIMIZERS = ["Adam", "AdamW", "SGD", "Adagrad", "RMSprop", "LBFGS"]


def fnv(tensor):
    value = 0xCBF29CE484222325
    for byte in tensor.numpy().tobytes():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_what_an_optimizer_reads_and_keeps(optimizer, tmp_path):
    import tdump

    (tmp_path / "c.yaml").write_text(CONFIG)
    bare = execute([APP, optimizer], tmp_path)
    dumped = execute([TDUMP_RUN, "-c", "c.yaml", "--", APP, optimizer], tmp_path)
    assert dumped.returncode == 0, dumped.stderr
    assert dumped.stdout == bare.stdout and "sum " in bare.stdout
    assert f"step = optimizer (torch::optim::{optimizer})" in dumped.stderr
    passes = [tdump.load_pass(file) for file in latest(tmp_path).passes(0)]
    assert [p.info.mode for p in passes] == ["train"] * 3  # LBFGS calls the model many times in one step
    printed = [line.split() for line in bare.stdout.splitlines() if line[0].isdigit()]
    assert len(printed) >= 12
    for step, p in enumerate(passes):
        state = {f"{r.path}.{r.arg}": fnv(p.tensor(r)) for r in p.records() if r.role == "state"}
        for r in p.records():  # the last accumulation is what the optimizer reads
            if r.role == "param_grad":
                assert r.phase == "backward"
                state[f"{r.path}.{r.arg}.grad"] = fnv(p.tensor(r))
        expected = {name: value for n, name, value in printed if int(n) == step}
        assert expected and {name: state.get(name) for name in expected} == expected
    if optimizer == "LBFGS":
        calls = [c for c in passes[1].calls() if c.path == "0"]
        assert len(calls) > 4
    else:
        gradients = [r for r in passes[1].records() if r.role == "param_grad" and r.path == "0" and r.arg == "bias"]
        # The model is a Sequential, whose forward has no name to take over: no micro-batches are told apart.
        assert [(r.micro, r.call) for r in gradients] == [(0, 0), (0, 1)]
