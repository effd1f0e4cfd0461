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
IN_TRACES = ("mlp", "decoder")
# By the words of the job: the steps that one compilation serves. The graphs of the first three are run by eager code.
EXACT = {"eager": 2, "aot_eager": 2, "aot_eager dynamic": 3}
COMPILED = EXACT | {"inductor": 2, "inductor dynamic": 3, "inductor cpp_wrapper": 2}
SCRIPTED = ("script", "trace")
IN_CXX = ("C++", "C++ script", "C++ aoti")
WAYS = (*COMPILED, *SCRIPTED, "aoti", *IN_CXX)
BFLOAT16 = tuple(f"{way} bfloat16" for way in ("eager", "aot_eager", "inductor", "script", "C++"))


def in_float32(way):
    return way.removesuffix(" bfloat16")


def models_of(way):
    return MODELS if in_float32(way) in EXACT else IN_TRACES if way == "trace" else IN_ALL_WAYS


CELLS = [(way, model) for way in (*WAYS, *BFLOAT16) for model in models_of(way)]
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

    def saved(*dtype):
        file = folder / "_".join(("models", *dtype))
        if not file.exists():
            done = execute([sys.executable, JOBS / JOB, "save", file, *dtype], folder, FREE)
            assert done.returncode == 0, done.stderr
        return file

    def in_cxx(what):
        file = saved(*([what] if what == "bfloat16" else []))
        if what == "aoti":
            run("aoti")
            return Runs(PROGRAM, folder)(str(file), "package", str(jobs.where("aoti")), bare=False)
        return Runs(PROGRAM, folder)(str(file), *([what] if what == "script" else []))

    done = {}

    def run(way):
        if way not in done:
            how, *words = way.split()
            if how == "trace":
                words = [str(saved())]
            fast = in_float32(way) in (*EXACT, *SCRIPTED, "plain")
            done[way] = in_cxx("".join(words)) if how == "C++" else jobs(how, *words, bare=fast)
        return done[way]

    return run


def of_model(model, told, captured):
    """Records and values by (step of this model, key)."""
    names = list(told)
    first = sum(len(told[name]["values"]) for name in names[: names.index(model)])
    steps = range(first, first + len(told[model]["values"]))
    return {(step - first, key): found for (step, key), found in captured.items() if step in steps}


def are_equal(ours, theirs, terms):
    """Within 4 eps sqrt(K) of the largest value, of bfloat16, whose sums are of float32, within 8 eps; without `terms`, or
    where nothing is rounded, in every bit."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    if terms is None or not theirs.is_floating_point():
        return torch.equal(ours, theirs)
    factor = 8 if theirs.dtype == torch.bfloat16 else 4 * sqrt(terms)
    limit = factor * torch.finfo(theirs.dtype).eps * theirs.abs().max()
    return bool((ours - theirs).abs().max() <= limit)


@pytest.mark.parametrize(("way", "model"), CELLS)
def test_keys_and_values_are_those_of_eager_code(runs, way, model, capsys):
    plain, _, captured, _ = runs(way.replace(in_float32(way), "plain"))
    eager = of_model(model, plain, captured)
    _, told, captured, said = runs(way)
    ours = of_model(model, told, captured)
    steps = range(len(told[model]["values"]))
    # A checkpoint computes its part anew in graphs, where no module is called again; C++ has none.
    expected = {place for place, (record, _) in eager.items() if place[0] in steps and not record.recompute}
    if "aoti" in way:  # has no backward
        expected = {place for place in expected if eager[place][0].phase == "forward"}
    how = in_float32(way)
    reasons = EXCEPTED.get(model, {}) if how in COMPILED and how != "eager" else {}
    excepted = {place for place in expected if place[1] in reasons}
    terms = None if how in EXACT else MODELS[model]
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
    compiled = how != "C++"
    assert all(record.compiled == (compiled and record.path != ".") for record, _ in ours.values())
    assert last_verdict(said) == "COMPLETE", said


@pytest.mark.parametrize("way", [*WAYS, *BFLOAT16])
def test_the_job_computes_the_same_and_is_compiled_once(runs, way):
    how = in_float32(way)
    plain, dumped_plain, _, _ = runs(way.replace(how, "plain"))
    bare, dumped, _, _ = runs(way)
    assert dumped_plain == plain
    assert bare is None or dumped == bare
    for model, told in dumped.items():
        if how in COMPILED:
            assert told["graphs"][COMPILED[how] - 1] == 1 and told["breaks"] == {}
        for ours, theirs in zip(told["values"], plain[model]["values"], strict=False):
            limits = {"rel": 1e-4, "abs": 1e-5} if how == way else {"rel": 5e-2, "abs": 5e-2}
            assert ours == pytest.approx(theirs[: len(ours)], **limits)  # of C++ the losses
