"""Modules inside a script module that is part of a model."""

from __future__ import annotations

import torch
from compiled_runs import Runs

STEPS = 4


def test_a_script_module_in_a_model_runs_unchanged_and_its_modules_are_seen(tmp_path):
    runs = Runs("scripted_parts.py", tmp_path)
    _, _, eager, _ = runs("eager", bare=False)
    bare, dumped, captured, said = runs()
    assert dumped == bare and bare[-1] is False
    assert "not captured" not in said
    trained = {place: value for place, (_, value) in captured.items() if place[0] < STEPS}
    assert trained.keys() == eager.keys() and any("parts.second.linear@grad_output" in key for _, key in trained)
    for place, (_, value) in eager.items():  # the whole gradient, too, of what is used inside
        assert torch.allclose(trained[place], value, rtol=1e-4, atol=1e-5), place


def test_without_taps_the_coverage_says_how_to_see_them(tmp_path):
    bare, dumped, captured, said = Runs("scripted_parts.py", tmp_path, taps="off")()
    assert dumped == bare
    assert "not captured (compile.taps: on captures them" in said
    assert not any(key.startswith("parts.") for _, key in captured)
