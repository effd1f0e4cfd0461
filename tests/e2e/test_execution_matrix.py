"""The ways in which a model runs, times models: the same keys as in eager code, and the same values but for rounding; where
it is compiled, once and with no graph break. A line for each cell tells how many keys were expected, equal and excepted."""

from __future__ import annotations

import sys
from math import sqrt

import pytest
import torch
from compiled_runs import FREE, JOBS, Runs
from conftest import BUILD, execute, last_verdict

JOB = "execution_matrix.py"
PROGRAM = BUILD / "tests" / "jobs" / "cxx_execution_matrix"
MODELS = {"mlp": 16, "decoder": 32, "minilm": 1536, "encoder": 32}  # terms of the longest sum that a layer makes
IN_ALL_WAYS = ("mlp", "decoder", "minilm")
# By the words of the job: the steps that one compilation serves. The graphs of the first three are run by eager code.
EXACT = {"eager": 2, "aot_eager": 2, "aot_eager dynamic": 3}
COMPILED = EXACT | {"inductor": 2, "inductor dynamic": 3, "inductor cpp_wrapper": 2}
CELLS = [(way, model) for way in (*COMPILED, "C++") for model in (MODELS if way in EXACT else IN_ALL_WAYS)]
# By model. In Dynamo's graph alone, and in C++, there are none.
EXCEPTED = {
    "mlp": {".@grad_output#1~b": "the hidden state, which is used inside only: a node of the graph's own backward"},
}
MOST = 0.02  # of the keys of a cell may be excepted


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What the job said in one of the ways, with tdump and without, what was captured, and what tdump said."""
    folder = tmp_path_factory.mktemp("matrix")
    jobs = Runs(JOB, folder)

    def in_cxx():
        file = folder / "models.pt"
        saved = execute([sys.executable, JOBS / JOB, "save", file], folder, FREE)
        assert saved.returncode == 0, saved.stderr
        return Runs(PROGRAM, folder)(str(file))

    ways = {"plain": lambda: jobs("plain"), "C++": in_cxx}
    done = {}

    def run(way):
        if way not in done:
            done[way] = ways[way]() if way in ways else jobs(*way.split(), bare=way in EXACT)
        return done[way]

    return run


def of_model(model, told, captured):
    """Records and values by (step of this model, key)."""
    names = list(told)
    first = sum(len(told[name]["values"]) for name in names[: names.index(model)])
    steps = range(first, first + len(told[model]["values"]))
    return {(step - first, key): found for (step, key), found in captured.items() if step in steps}


def are_equal(ours, theirs, terms):
    """Within 4 eps sqrt(K) of the largest value; without `terms`, or where nothing is rounded, in every bit."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    if terms is None or not theirs.is_floating_point():
        return torch.equal(ours, theirs)
    limit = 4 * torch.finfo(theirs.dtype).eps * sqrt(terms) * theirs.abs().max()
    return bool((ours - theirs).abs().max() <= limit)


@pytest.mark.parametrize(("way", "model"), CELLS)
def test_keys_and_values_are_those_of_eager_code(runs, way, model, capsys):
    plain, _, captured, _ = runs("plain")
    eager = of_model(model, plain, captured)
    _, told, captured, said = runs(way)
    ours = of_model(model, told, captured)
    steps = range(len(told[model]["values"]))
    # A checkpoint computes its part anew in graphs, where no module is called again; C++ has none.
    expected = {place for place, (record, _) in eager.items() if place[0] in steps and not record.recompute}
    reasons = {} if way in ("eager", "C++") else EXCEPTED.get(model, {})
    excepted = {place for place in expected if place[1] in reasons}
    terms = None if way in EXACT else MODELS[model]
    equal = {place for place in expected & ours.keys() if are_equal(ours[place][1], eager[place][1], terms)}
    for phase in ("forward", "backward"):
        keys, same, left_out = (
            {place for place in some if eager[place][0].phase == phase} for some in (expected, equal, excepted)
        )
        why = "; ".join(f"{key}: {reasons[key]}" for key in sorted({key for _, key in left_out}))
        with capsys.disabled():
            print(f"\n{way}, {model}, {phase}: {len(keys)} expected, {len(same)} equal, {len(left_out)} excepted", why)
        assert len(left_out) <= MOST * len(keys)
    assert ours.keys() == expected - excepted
    assert sorted(ours.keys() - equal) == []
    assert all(record.compiled == (way in COMPILED and record.path != ".") for record, _ in ours.values())
    assert last_verdict(said) == "COMPLETE", said


@pytest.mark.parametrize("way", [*COMPILED, "C++"])
def test_the_job_computes_the_same_and_is_compiled_once(runs, way):
    plain, dumped_plain, _, _ = runs("plain")
    bare, dumped, _, _ = runs(way)
    assert dumped_plain == plain
    assert bare is None or dumped == bare
    for model, told in dumped.items():
        if way in COMPILED:
            assert told["graphs"][COMPILED[way] - 1] == 1 and told["breaks"] == {}
        for ours, theirs in zip(told["values"], plain[model]["values"], strict=False):
            assert ours == pytest.approx(theirs[: len(ours)], rel=1e-4, abs=1e-5)  # of C++ the losses
