"""Values are what they were at the hook, and the job computes what it computes without tdump.

So is the input of an in-place module, what a module gives that is called more than once, and what stands in structures.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tdump
import torch
from conftest import BUILD, TDUMP_RUN, execute, latest

JOB = Path(__file__).parent / "jobs" / "awkward_values.py"
# The bare job imports tdump too: without a plugin its functions do nothing.
EVERYTHING = """
steps: all
collect: {aten: on}
capture:
  - role: [input, output, before, after, grad_input, grad_output, param, param_grad, state]
    level: [full, stats]
  - {op: '.*', role: [input, output, before, after], phase: [forward, backward], level: [full, stats]}
"""
ENV = {"PYTHONPATH": str(BUILD / "python")}


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("values")
    config = cwd / "all.yaml"
    config.write_text("capture: [{role: [input, output], level: full}]\n")
    bare = execute([sys.executable, JOB, cwd / "expected.pt"], cwd, ENV)
    assert bare.returncode == 0, bare.stderr
    dumped = execute([TDUMP_RUN, "-c", config, "--", sys.executable, JOB], cwd)
    passes = [tdump.load_pass(file) for file in latest(cwd).passes(0)]
    return bare, dumped, torch.load(cwd / "expected.pt"), passes


def test_results_gradients_and_rng_are_the_bare_run_s(job):
    bare, dumped, _, _ = job
    assert dumped.returncode == 0, dumped.stderr
    assert dumped.stdout == bare.stdout and len(bare.stdout) == 65


def test_training_in_place_gives_the_same_bits_with_everything_captured(tmp_path):
    script = [sys.executable, JOB.with_name("in_place_training.py")]
    (tmp_path / "everything.yaml").write_text(EVERYTHING)
    bare = execute(script, tmp_path, ENV)
    assert bare.returncode == 0, bare.stderr
    dumped = execute([TDUMP_RUN, "-c", "everything.yaml", "--", *script], tmp_path)
    assert dumped.returncode == 0, dumped.stderr
    assert len(bare.stdout.splitlines()) == 3 * (2 * 3 + 5 * 9) + 1  # nine parameters: gradient, value, three of AdamW
    assert dumped.stdout.splitlines() == bare.stdout.splitlines()
    passes = [tdump.load_pass(file) for file in latest(tmp_path).passes(0)]
    assert len(passes) == 3
    both = {"module": {"input", "output", "grad_input", "grad_output", "param", "param_grad", "state"}}
    both["aten"] = {"input", "output", "before", "after"}
    for seen in passes:
        records = list(seen.records())
        for kind, roles in both.items():
            assert {r.role for r in records if r.kind == kind} == roles
        assert {"forward", "backward"} == {r.phase for r in records if r.kind == "aten"}
        for record in records:
            assert {"payload", "stats"} <= set(record.kept) and not record.reason, record


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()


def test_load_pass_equals_a_forward_hook_dumper(job):
    _, _, expected, passes = job
    assert len(passes) == len(expected) == 2
    for seen, wanted in zip(passes, expected, strict=True):
        assert set(seen) == set(wanted)
        for name, tensor in wanted.items():
            assert same_bits(torch.as_tensor(seen[name]), tensor), name


def test_calls_are_told_apart(job):
    seen = job[3][0]
    names = [f"reused.three{suffix}" for suffix in ("", *(f"::call{n}" for n in range(1, 6)))]
    assert [name for name in seen if name.startswith("reused.three")] == names  # two forwards of three calls
    records = [seen.record(name) for name in names]
    assert [(r.micro, r.call) for r in records] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    shared = seen.record("reused.left")
    assert shared.aliases == ("reused.right",)
    assert "reused.left::call1" in seen and not any(name.startswith("reused.right") for name in seen)


def test_the_input_of_an_in_place_module_is_from_before(job):
    for seen in job[3]:
        x, y = seen["inplace.first@input#0"], seen["inplace.first"]
        assert same_bits(seen["inplace.same@input#0"], y + x) and same_bits(seen["inplace.same"], y + x)
        before = seen["inplace.act@input#0"]
        assert same_bits(before, (y + x) * 2) and (before < 0).any()
        assert same_bits(seen["inplace.act"], before.clamp(min=0))
        assert same_bits(seen["inplace.flat"], before.clamp(min=0).flatten())
        assert same_bits(seen["inplace.drop@input#0"], seen["inplace.flat"])
        assert (seen["inplace.drop"] != seen["inplace.flat"]).any()


def test_what_is_no_tensor_is_listed_in_the_call(job):
    texts = {}
    for call in job[3][0].calls():
        texts.setdefault(call.name, call.text)
    prefix = "structured.returns."
    expected = {
        "none": "out=None",
        "nothing": "",
        "tuple": "out.2.1=None",
        "dict": "out.aux.text='ok'",
        "dataclass": "out.right=None",
        "namedtuple": "out.note='n'",
        "string": "out='text'",
        "number": "out=3",
    }
    assert {kind: texts[prefix + kind] for kind in expected} == expected
    for empty in ("none", "nothing", "string", "number"):
        assert not any(name.startswith(prefix + empty) for name in job[3][0])


def test_a_call_lies_inside_that_of_its_owner(job):
    calls = list(job[3][0].calls())
    by_begin = {call.begin: call for call in calls}
    assert len(by_begin) == len(calls) == 2 * (1 + 6 + 11 + 9)  # root, inplace, structured, reused with their parts
    for call in calls:
        owner = {".": None, "inplace": ".", "structured": ".", "reused": "."}.get(call.name, call.name.split(".")[0])
        if call.name.startswith("structured.returns."):
            owner = "structured"
        if owner is None:
            assert call.parent == 0
        else:
            above = by_begin[call.parent]
            assert above.name == owner and above.begin < call.begin < call.end < above.end
