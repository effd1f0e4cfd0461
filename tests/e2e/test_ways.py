"""``tdump-view --coverage`` tells by which way of execution each operator was seen, and why one was not."""

from __future__ import annotations

import json
import sys

from conftest import BUILD, TDUMP_RUN, execute

MODEL = """
import torch
torch.manual_seed(0)

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)
    def forward(self, x):
        return self.fc(x).relu()

class Foreign(Block):
    pass

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.eager, self.tapped, self.late, self.foreign = Block(), Block(), Block(), Foreign()
        self.fused = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    def forward(self, x):
        return self.fused(self.foreign(self.late(self.tapped(self.eager(x)))))

def backend_of_the_job(graph, inputs):
    return graph.forward

model = Net().eval()
model.tapped.compile(backend="aot_eager", fullgraph=True)
model.foreign.compile(backend=backend_of_the_job, fullgraph=True)
with torch.no_grad():
    for step in range(3):
        if step == 1:
            model.late.compile(backend="aot_eager", fullgraph=True)
        print(model(torch.full((2, 3, 8), float(step))).tolist())
"""


def coverage(cwd, program, config):
    """Of a job that prints what it prints without tdump: what tdump said, and the coverage as text and JSON."""
    (cwd / "job.py").write_text(program)
    (cwd / "c.yaml").write_text(f"signature: false\n{config}\n")
    job = [sys.executable, "-W", "ignore", "job.py"]
    bare = execute(job, cwd, {"PYTHONPATH": str(BUILD / "python")}, 600)
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", *job], cwd, timeout=600)
    assert bare.returncode == done.returncode == 0, done.stderr
    assert done.stdout == bare.stdout
    view = [BUILD / "bin" / "tdump-view", "latest", "--coverage"]
    return done.stderr, execute(view, cwd).stdout, json.loads(execute([*view, "--json"], cwd).stdout)["ways"]


ALL = "capture: [{role: [output], level: full}]"
INSIDE_FOREIGN = "perhaps inside foreign: a Foreign is compiled, and not captured inside"
FUSED = "fused was called and did not call it: a TransformerEncoderLayer has a fused path that calls no part"


def test_each_operator_has_its_way_and_its_reason(tmp_path):
    _, text, ways = coverage(tmp_path, MODEL, f"{ALL}\ncompile: {{taps: on}}")
    found = {op["name"]: op for op in ways["operators"]}
    seen = {name: {by["way"]: (by["calls"], by["steps"]) for by in op["seen"]} for name, op in found.items()}
    eager, compiled = {"eager": (3, [[0, 2]])}, {"compiled": (3, [[0, 2]])}
    for name in (".", "eager", "eager.fc", "foreign", "fused"):
        assert seen[name] == eager, name
    assert seen["tapped.fc"] == compiled
    assert seen["late.fc"] == {"eager": (1, [[0, 0]]), "compiled": (2, [[1, 2]])}
    never = {name: op["why_not"] for name, op in found.items() if not op["seen"]}
    assert never.pop("foreign.fc") == INSIDE_FOREIGN
    assert {"fused.self_attn", "fused.linear1", "fused.norm2"} <= never.keys()
    assert never.pop("fused.self_attn.out_proj") in (FUSED, never["fused.self_attn"])
    assert set(never.values()) == {FUSED}
    assert ways["counts"]["never"] == len(never) + 2
    assert f"\n  never      foreign.fc\n             - {INSIDE_FOREIGN}\n" in text
    assert f"             - {FUSED}\n" in text
    assert "eager in step 0, compiled in steps 1-2  " in text


def test_what_is_compiled_without_taps_is_named_with_what_it_is_in(tmp_path):
    said, _, ways = coverage(tmp_path, MODEL, ALL)
    found = {op["name"]: op for op in ways["operators"]}
    assert found["tapped.fc"]["why_not"] == "perhaps inside tapped: a Block is compiled, and not captured inside"
    assert found["late.fc"]["seen"] == [{"way": "eager", "calls": 1, "steps": [[0, 0]]}]
    assert found["late.fc"]["not_seen"] == [[1, 2]]
    assert found["late.fc"]["why_not"] == "perhaps inside late: a Block is compiled, and not captured inside"
    assert found["foreign.fc"]["why_not"] == INSIDE_FOREIGN
    assert found["eager.fc"]["seen"]
