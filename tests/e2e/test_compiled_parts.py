"""Modules inside what torch.compile makes: the ways in which jobs compile parts of what they run, and taps."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from compiled_runs import Runs

PARTS = [
    "layers_share_code",
    "a_function",
    "a_function_of_two_models",
    "two_instances",
    "micro_batches",
    "an_eager_model_around",
    "a_part_in_place",
    "steps_without_gradients",
    "layers_through_a_function",
    "micro_batches_of_a_function",
    "taps_in_a_model",
    "taps_in_a_function",
    "taps_of_layers_that_share_code",
    "a_hook_on_a_leaf",
    "arguments_that_are_not_used",
]


@pytest.mark.parametrize(
    ("case", "backend"),
    [(case, "aot_eager") for case in PARTS] + [("a_hook_on_a_leaf", "eager"), ("micro_batches", "eager")],
)
def test_parts_that_are_compiled_are_captured_as_in_eager_code(case, backend, tmp_path):
    runs = Runs("compiled_parts.py", tmp_path)
    plain, _, eager, _ = runs(case, "plain")
    bare, dumped, compiled, said = runs(case, backend)
    assert dumped == bare and dumped["result"] == plain["result"] and not dumped["breaks"]
    assert "not captured" not in said, said
    assert compiled.keys() == eager.keys()
    unequal = [key for key in eager if not torch.equal(compiled[key][1], eager[key][1])]
    assert not unequal
    inside = Counter(record.compiled for record, _ in compiled.values())
    assert inside[True] > len(eager) / 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_under_compiled_autograd_the_job_runs_as_without_tdump(backend, tmp_path):
    bare, dumped, compiled, _ = Runs("compiled_parts.py", tmp_path)("compiled_autograd", backend)
    assert dumped == bare
    assert any("@output" in key for _, key in compiled)


NOT_CAPTURED = {
    "functional_transform": "a transform of torch.func inside the compiled region; not captured",
    "a_tap_whose_name_is_an_argument": "a tap whose name, tags, phase or ranks are arguments or attributes; "
    "not captured",
    "a_backend_of_the_job": "a region of the backend backend, which may not know operators of tdump; not captured",
}


@pytest.mark.parametrize("case", NOT_CAPTURED)
def test_what_cannot_be_captured_runs_unchanged_and_is_named(case, tmp_path):
    bare, dumped, _, said = Runs("compiled_parts.py", tmp_path)(case, "aot_eager")
    assert dumped == bare and "Error" not in str(bare)
    assert NOT_CAPTURED[case] in said


@pytest.mark.parametrize("taps", ["off", "auto"])
def test_without_taps_the_graphs_are_those_of_the_job(taps, tmp_path):
    bare, dumped, compiled, said = Runs("compiled_parts.py", tmp_path, taps=taps)("an_eager_model_around", "aot_eager")
    assert dumped == bare
    assert "not captured (compile.taps: on captures them" in said
    assert {key.split("@")[0].split("::")[0] for _, key in compiled} == {"0", "1", "2", "."}


def test_of_two_models_that_share_code_only_the_second_is_wanted(tmp_path):
    second = "capture: [{name: '^Stack#1', level: full}]"
    bare, dumped, compiled, said = Runs("compiled_parts.py", tmp_path, second)("two_instances", "aot_eager")
    assert dumped == bare and "not captured" not in said
    assert any(key.startswith("Stack%231:layers.0.mlp.2@output") for _, key in compiled)


def test_of_layers_that_share_code_only_taps_of_the_last_are_wanted(tmp_path):
    last = "capture: [{name: '^layers.2', level: full}]"
    runs = Runs("compiled_parts.py", tmp_path, last)
    _, _, eager, _ = runs("taps_of_layers_that_share_code", "plain")
    bare, dumped, compiled, _ = runs("taps_of_layers_that_share_code", "aot_eager")
    assert dumped == bare
    assert compiled.keys() == eager.keys() and any("/normed@output" in key for _, key in compiled)


def test_only_what_a_rule_can_want_is_in_the_graphs(tmp_path):
    one = "capture: [{name: '^layers.1.mlp.0$', level: full}]"
    bare, dumped, compiled, said = Runs("compiled_parts.py", tmp_path, one)("a_function", "aot_eager")
    assert dumped == bare and "not captured" not in said
    assert {key for _, key in compiled if "@output" in key} == {"layers.1.mlp.0@output#"}
