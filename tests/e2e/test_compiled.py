"""Modules inside what torch.compile makes are captured under the keys they have in eager code, with no graph break and no
more graphs than without tdump."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from math import sqrt

import pytest
import tdump
import torch
from conftest import BUILD, SOURCE, TDUMP_RUN, execute, latest

JOBS = SOURCE / "tests" / "e2e" / "jobs"
EVERY = "role: [input, output, grad_input, grad_output], phase: [forward, backward], level: full"
PATIENCE = 1200  # seconds
FREE = {"PYTHONPATH": str(BUILD / "python")}  # `import tdump` works, and does nothing


def told(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def captured(folder):
    """Records and values by (step, key)."""
    found = {}
    for file in latest(folder).passes(0):
        opened = tdump.load_pass(file)
        for record in opened.records():
            found[opened.info.local_step, record.key] = (record, opened.tensor(record))
    return found


class Runs:
    """A job in eager mode and compiled, each once."""

    def __init__(self, job, folder, config=f"capture: [{{{EVERY}}}]", taps="on"):
        self.job, self.folder, self.config, self.done = (
            JOBS / job,
            folder,
            f"steps: all\nsignature: false\n{config}\ncompile: {{taps: {taps}}}\n",
            {},
        )

    def __call__(self, *words):
        """What the job said without tdump and with it, and what was captured."""
        if words not in self.done:
            cwd = self.folder / "_".join(words)
            cwd.mkdir()
            (cwd / "c.yaml").write_text(self.config)
            command = [sys.executable, "-W", "ignore", str(self.job), *words]
            caches = {"TORCHINDUCTOR_CACHE_DIR": str(cwd / "cache")}
            bare = told(execute(command, cwd, FREE | caches, PATIENCE))
            dumped = execute([TDUMP_RUN, "-c", "c.yaml", "--", *command], cwd, caches, PATIENCE)
            self.done[words] = (bare, told(dumped), captured(cwd), dumped.stderr)
        return self.done[words]


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
    "a_tap_whose_name_is_an_argument": "a tap whose name or tags are arguments or attributes; not captured",
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
