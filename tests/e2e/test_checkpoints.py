"""A job with activation checkpoints against the same job without: forward meets forward (E20)."""

from __future__ import annotations

import sys

import pytest
import tdump
from conftest import BUILD, TDUMP_RUN, Run, execute

JOB = """
import sys, torch
from torch.utils.checkpoint import checkpoint
how = sys.argv[1]
wrong = len(sys.argv) > 2
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.act, self.down = torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4)
    def forward(self, x):
        return x + self.down(self.act(self.up(x)))
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.layers = torch.nn.Linear(3, 4), torch.nn.ModuleList(Layer() for _ in range(2))
    def forward(self, x):
        x = self.embed(x)
        if how == "plain":
            x = self.layers[0](x)
        else:
            x = checkpoint(self.layers[0], x, use_reentrant=how == "reentrant")
        return self.layers[1](x)
torch.manual_seed(0)
net = Net()
if wrong:
    with torch.no_grad():
        net.layers[0].up.weight *= 1.05
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    for micro in range(2):
        net(torch.randn(5, 3)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
CONFIG = """
steps: all
collect: {aten: on}
capture:
  - {role: [input, output, param, grad_input, grad_output, param_grad], phase: [forward, backward], level: full}
  - {op: '^aten::(addmm|mm|gelu)$', role: [input, output], phase: [forward, backward], level: full}
"""
KINDS = ["none", "reentrant"]  # keeps the graph of the first forward, or makes it of the second one


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("checkpoints")
    (cwd / "job.py").write_text(JOB)
    (cwd / "c.yaml").write_text(CONFIG)
    (cwd / "drop.yaml").write_text("recompute: drop\n" + CONFIG)

    def run(name, *words, config="c.yaml"):
        command = [TDUMP_RUN, "-c", config, "-o", name, "--", sys.executable, "-W", "ignore", "job.py", *words]
        done = execute(command, cwd)
        assert done.returncode == 0 and "tdump: COMPLETE" in done.stderr, done.stderr

    run("plain", "plain")
    for kind in KINDS:
        run(kind, kind)
    run("dropped", "none", config="drop.yaml")
    run("wrong", "none", "wrong")
    return cwd


def diff(cwd, a, b):
    return execute([BUILD / "bin" / "tdump-diff", a, b], cwd)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_computed_anew_is_marked(runs, kind):
    for file in Run(runs / kind).passes(0):
        seen = tdump.load_pass(file)
        again = {r.path for r in seen.records() if r.recompute}
        assert again == {"layers.0", "layers.0.up", "layers.0.act", "layers.0.down"}
        outputs = [r for r in seen.records() if (r.path, r.op, r.role) == ("layers.0.up", "", "output")]
        assert sorted((r.micro, r.recompute) for r in outputs) == [(m, r) for m in range(2) for r in (False, True)]


@pytest.mark.parametrize("kind", [*KINDS, "dropped"])
def test_forwards_meet_forwards_and_are_equal(runs, kind):
    for a, b in (("plain", kind), (kind, "plain")):
        done = diff(runs, a, b)
        assert done.returncode == 0 and "SAME" in done.stdout, done.stdout
        assert "only in" not in done.stdout
        if kind != "dropped":
            assert f"anew in {'AB'[a == 'plain']} alone is left out" in done.stdout


def test_another_kind_of_checkpoint_is_equal_too(runs):
    done = diff(runs, *KINDS)
    assert done.returncode == 0 and "SAME" in done.stdout, done.stdout


def test_a_fault_inside_a_checkpoint_is_found(runs):
    done = diff(runs, "plain", "wrong")
    assert done.returncode == 1 and "layers.0.up.weight" in done.stdout, done.stdout
