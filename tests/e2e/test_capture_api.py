"""tdump.tap, tdump.watch and tdump.step: real under tdump, nothing without it, harmless always."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tdump
import torch
from conftest import BUILD, TDUMP_RUN, execute, latest

JOB = Path(__file__).parent / "jobs" / "api.py"
ENV = {"PYTHONPATH": str(BUILD / "python")}
CONFIG = "steps: all\nsignature: false\ncapture: [{level: full, phase: [forward, backward]}]\n"


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("api")
    (cwd / "api.yaml").write_text(CONFIG)
    bare = execute([sys.executable, JOB], cwd, ENV)
    assert bare.returncode == 0, bare.stderr
    dumped = execute([TDUMP_RUN, "-c", "api.yaml", "--", sys.executable, JOB], cwd)
    assert dumped.returncode == 0, dumped.stderr
    return bare, dumped, latest(cwd)


@pytest.fixture(scope="module")
def passes(job):
    return [tdump.load_pass(file) for file in job[2].passes(0)]


def test_the_job_is_the_same_job(job):
    bare, dumped, _ = job
    assert dumped.stdout == bare.stdout != ""


def test_step_numbers(passes):
    assert [(p.info.mode, p.info.local_step, p.info.job_step) for p in passes] == [
        ("explicit", 0, 41),
        ("explicit", 1, None),
    ]


def test_a_tap_is_what_the_tensor_was_then(passes):
    seen = passes[0]
    before, after = seen["./hidden"], seen["./hidden::call1"]
    assert torch.equal(before, seen["inner"]) and torch.equal(after, before * 3)
    assert torch.equal(seen["./both/parts:1.a"], after)
    assert seen["./both/parts:1.b.0"].tolist() == seen["outside"].tolist() == [[1.0, 1.0]]


def test_a_tap_is_a_call_below_the_open_module(passes):
    calls = {(call.name, call.index): call for call in passes[0].calls()}
    root = calls[".", 0]
    assert calls["./hidden", 0].text == "tag=first; tag=second"
    assert calls["./both/parts:1", 0].text == "out.b.1=None"
    assert {name for (name, _), call in calls.items() if call.parent == root.begin} == {
        "inner",
        "./hidden",
        "./both/parts:1",
    }
    assert calls["outside", 0].parent == 0 and calls["outside", 0].kind == "tap"


def test_taps_in_backward_inference_and_another_thread(passes):
    records = {record.name: record for record in passes[1].records()}
    assert (records["weight grad"].phase, records["weight grad"].lane) == ("backward", 0)
    assert passes[1].tensor(records["weight grad"]).tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert passes[1]["inference"].tolist() == [[2.0, 2.0]]
    assert records["worker"].lane == 1 and passes[1]["worker"].tolist() == [[3.0, 3.0]]


def test_what_is_no_tensor_is_text(passes):
    texts = [call.text for call in passes[1].calls() if call.name == "odd"]
    assert texts == ["out=None", "out=3", "out='text'", "out=<object>", ""]
    assert {"odd.0", "odd.1.0", "<NoneType>", "7", "tap"} <= set(passes[1])
    (seven,) = (call for call in passes[1].calls() if call.name == "7")
    assert seven.text == "tag=8; tag=<object>"


def test_a_structure_that_contains_itself_ends(passes):
    assert [name for name in passes[1] if name.startswith("loop")] == ["loop.0"]
    (loop,) = (call for call in passes[1].calls() if call.name == "loop")
    assert loop.text == "out.1=<list>"


def test_wrong_arguments_are_told_not_raised(job):
    (directory,) = job[2].ranks()[0]
    manifest = (directory / "manifest.tdm").read_bytes()
    assert b"tdump.step(str): invalid literal for int()" in manifest
    assert b"tdump.watch(NoneType): expected a torch.nn.Module" in manifest


NO_TORCH = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import tdump
x = object()
assert tdump.tap(x, "a", "b") is x
tdump.step(); tdump.step(3); tdump.step("x"); tdump.watch(x, "n"); tdump.watch(None)
loaded = [name for name in sys.modules if name.startswith("tdump.")]
assert loaded == ["tdump._ranks", "tdump._api"], loaded
print("fine")
"""


@pytest.mark.parametrize("under_tdump", [False, True])
def test_without_torch_all_is_a_no_op(tmp_path, under_tdump):
    command = [sys.executable, "-c", NO_TORCH]
    done = execute([TDUMP_RUN, "--dump", "--", *command] if under_tdump else command, tmp_path, ENV)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")
    assert not (tmp_path / "outputs").exists()


def test_collect_taps_off(tmp_path):
    text = (
        "import tdump, torch\nx = torch.ones(2)\ntdump.step()\nassert tdump.tap(x, 'a') is x\ntorch.nn.Identity()(x)\n"
    )
    config = "collect: {taps: off}\nsignature: false\ncapture: [{level: full}]\n"
    (tmp_path / "app.py").write_text(text)
    (tmp_path / "c.yaml").write_text(config)
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, "app.py"], tmp_path)
    assert done.returncode == 0, done.stderr
    (file,) = latest(tmp_path).passes(0)
    assert [record.kind for record in tdump.load_pass(file).records()] == ["module"]
