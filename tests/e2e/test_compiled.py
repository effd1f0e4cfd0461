"""Modules inside what torch.compile makes are captured under the keys they have in eager code, with no graph break and no
more graphs than without tdump: whole models."""

from __future__ import annotations

import os
from math import sqrt

import pytest
import torch
from compiled_runs import Runs


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return Runs("compiled.py", tmp_path_factory.mktemp("models"))


def bound(value):
    """4 eps sqrt(K), of the largest value. K: the longest sum that goes into a value, a gradient over 3 x 5 rows of 48."""
    return 4 * torch.finfo(value.dtype).eps * sqrt(3 * 5 * 48) * float(value.abs().max())


CELLS = ["eager", "aot_eager", "aot_eager dynamic"]
if os.environ.get("TDUMP_TEST_INDUCTOR"):  # minutes of a C++ compiler each
    CELLS += ["inductor", "inductor dynamic", "inductor cpp_wrapper"]


@pytest.mark.parametrize("cell", CELLS)
def test_compiled_models_have_the_keys_and_values_of_eager_ones(models, cell):
    _, _, eager, _ = models("plain")
    bare, dumped, compiled, said = models(*cell.split())
    # Torch computes a checkpoint anew inside the graph: no module is called again. What the compiled module itself gives
    # is seen from outside: the uses inside are not among those whose gradients are summed.
    excepted = {key for key, (record, _) in eager.items() if record.recompute}
    if cell != "eager":  # there each operator has its own node in the graph of autograd
        excepted |= {(step, ".@grad_output#hidden.0~b") for step in range(2)}
    expected = {key for key in eager if key not in excepted}
    assert compiled.keys() == expected
    exact = "inductor" not in cell
    for key in expected:
        ours, theirs = compiled[key][1], eager[key][1]
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        limit = 0 if exact or not ours.is_floating_point() else bound(theirs)
        assert float((ours.double() - theirs.double()).abs().max()) <= limit, key
    roots = {key for key in expected if key[1].split("@")[0].endswith((".", ".::call1"))}
    assert all(compiled[key][0].compiled == (key not in roots) for key in expected)
    print(f"{cell}: {len(eager)} keys, {len(expected)} equal, {len(excepted)} excepted")
    assert "INCOMPLETE" not in said and "COMPLETE" in said, said
    for name in bare:
        if exact or name.endswith(("graphs", "breaks")):
            assert dumped[name] == bare[name] and (dumped[name] == {} or "breaks" not in name)
        else:
            assert dumped[name] == pytest.approx(bare[name], rel=1e-4, abs=1e-5)
