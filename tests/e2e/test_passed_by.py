"""Ways past the hooks of modules: a fused path, code that was compiled before, script modules, another observer. What is
asked for is recorded, or said to be missing."""

from __future__ import annotations

import json
import sys

import pytest
import tdump
from conftest import BUILD, TDUMP_RUN, execute, latest

ENV = {"PYTHONPATH": str(BUILD / "python")}


def dumped(cwd, config, text, *words):
    (cwd / "job.py").write_text(text)
    (cwd / "c.yaml").write_text(config)
    job = [sys.executable, "-W", "ignore", "job.py", *words]
    bare = execute(job, cwd, ENV)
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", *job], cwd)
    assert bare.returncode == done.returncode == 0, done.stderr
    assert done.stdout == bare.stdout
    return done, [tdump.load_pass(file) for file in latest(cwd).passes(0)]


# ---- E06: a fused path of torch calls no module of a layer ----

ENCODER = """
import sys, torch
torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
with torch.inference_mode(sys.argv[1] == "fused"):
    y = model(torch.randn(2, 3, 8))
print(y.sum().item())
"""
ATTENTION = "layers.0.self_attn"
ASKED = f"signature: false\ncapture: [{{name: '{ATTENTION}$', level: full}}]\n"


def test_a_module_that_a_fused_path_passes_by_is_named(tmp_path):
    done, passes = dumped(tmp_path, ASKED, ENCODER, "fused")
    assert f"never called: {ATTENTION}" in done.stderr, done.stderr
    assert not any(record.path == ATTENTION for p in passes for record in p.records())
    view = execute([BUILD / "bin" / "tdump-view"], tmp_path)
    assert f"never called: {ATTENTION}" in view.stdout


def test_with_gradients_it_is_called_and_recorded(tmp_path):
    done, (p,) = dumped(tmp_path, ASKED, ENCODER, "modules")
    assert {record.path for record in p.records()} == {ATTENTION}
    assert p[f"{ATTENTION}@output#0"].shape == (2, 3, 8)
    assert "never called" not in done.stderr


def test_the_fused_operator_is_recorded_below_the_layer(tmp_path):
    config = "signature: false\ncollect: {aten: on}\ncapture: [{op: '_transformer_encoder_layer_fwd$', level: full}]\n"
    _, (p,) = dumped(tmp_path, config, ENCODER, "fused")
    ((path, shape),) = [(r.path, tuple(r.shape)) for r in p.records() if r.role == "output"]
    assert (path, shape) == ("layers.0", (2, 3, 8))


# ---- E08: the call that is asked for comes after the one for which code was compiled ----

COMPILED = """
import sys, tdump, torch
torch.manual_seed(0)
class Net(torch.nn.Sequential):
    pass
model = Net(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
if sys.argv[1] == "in place":
    model.compile(backend="aot_eager", fullgraph=True)
    call = model
else:
    call = torch.compile(model, backend="aot_eager", fullgraph=True)
with torch.no_grad():
    for step in range(3):
        tdump.step()
        print(call(torch.full((1, 4), float(step))).tolist())
"""


@pytest.mark.parametrize("how", ["wrapped", "in place"])
def test_code_compiled_in_a_step_before_gives_records(tmp_path, how):
    config = "steps: [2]\nsignature: false\ncompile: {taps: on}\ncapture: [{role: [input, output], level: full}]\n"
    done, (p,) = dumped(tmp_path, config, COMPILED, how)
    assert set(p) == {".", "0", "1", "2"}
    assert p["."].tolist() == json.loads(done.stdout.splitlines()[2]) and p["0@input#0"].tolist() == [[2.0] * 4]


@pytest.mark.parametrize("how", ["wrapped", "in place"])
def test_a_compiled_model_without_taps_is_said_not_to_be_captured(tmp_path, how):
    config = "steps: [2]\nsignature: false\ncapture: [{role: [input, output], level: full}]\n"
    done, _ = dumped(tmp_path, config, COMPILED, how)
    assert "tdump: INCOMPLETE" in done.stderr
    assert (
        "torch.compile: modules in this region are traced; not captured (compile.taps: on captures them" in done.stderr
    )
    assert "torch.compile: Net is compiled; not captured inside" in done.stderr
    assert done.stderr.count("is compiled;") == 1


# ---- E26: hooks do not fire inside script modules ----

SCRIPTED = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
scripted = torch.jit.script(model)
with torch.no_grad():
    print(scripted(torch.ones(1, 4)).sum().item())
"""


def test_modules_inside_a_script_module_are_said_not_to_be_captured(tmp_path):
    done, passes = dumped(tmp_path, "signature: false\ncapture: [{role: [output], level: full}]\n", SCRIPTED)
    assert "TorchScript: modules inside a script module run without hooks; not captured" in done.stderr
    assert not any(record.path in "012" for p in passes for record in p.records())


def test_operators_of_a_script_module_are_recorded(tmp_path):
    config = "signature: false\ncollect: {aten: on}\ncapture: [{op: '^aten::(linear|addmm|relu)$', level: full}]\n"
    _, (p,) = dumped(tmp_path, config, SCRIPTED)
    ops = [call.op for call in sorted(p.calls(), key=lambda call: call.begin) if call.op]
    assert [op for op in ops if op != "aten::linear"] == ["aten::addmm", "aten::relu", "aten::addmm"]


# ---- E27: the profiler of torch is another observer of the same operators ----

PROFILED = """
import sys, tdump, torch
from torch.profiler import ProfilerActivity, profile
before, stop = (int(word) for word in sys.argv[1:])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
one = None
with torch.no_grad():
    for step in range(6):
        if step == before:
            one = profile(activities=[ProfilerActivity.CPU])
            one.start()
        tdump.step()
        model(torch.full((1, 4), float(step)))
        if step == stop:
            one.stop()
            counts = {event.key: event.count for event in one.key_averages()}
            print(counts["aten::addmm"], counts["aten::relu"], sorted(name for name in counts if "aten" in name))
"""


# tdump looks at operators in steps 2-4.
@pytest.mark.parametrize(
    ("before", "stop"),
    [(0, 5), (3, 3), (0, 3), (3, 5), (2, 4)],
    ids=["around", "inside", "starts before, stops inside", "starts inside, stops after", "the same steps"],
)
def test_the_profiler_and_tdump_see_all(tmp_path, before, stop):
    config = "steps: 2-4\nsignature: false\ncollect: {aten: on}\ncapture: [{op: '.', role: [output], level: full}]\n"
    _, passes = dumped(tmp_path, config, PROFILED, str(before), str(stop))
    assert [p.info.local_step for p in passes] == [2, 3, 4]
    for p in passes:
        ops = [call.op for call in sorted(p.calls(), key=lambda call: call.begin) if call.kind == "aten"]
        assert [op for op in ops if op in ("aten::addmm", "aten::relu")] == ["aten::addmm", "aten::relu"]
        first = next(r for r in p.records() if r.op == "aten::addmm")
        assert p.tensor(first).shape == (1, 4)
