"""What runs on behalf of tdump is no operator of the job: statistics, predicates, and copies of tensors."""

from __future__ import annotations

import sys
from collections import Counter

import tdump
import torch
from conftest import TDUMP_RUN, execute, latest

JOB = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Identity()
    def forward(self, x):
        for i in range(10):
            x = x + 1
        return self.inner(x)
net, x = Net(), torch.tensor([float("nan"), 1.0])
with torch.no_grad():
    for _ in range(2):
        net(x)
"""
PREDICATE = """
import torch
def busy(name, module):
    with torch.no_grad():
        if name.endswith("inner"):
            module(torch.ones(3))
        return bool((torch.ones(2) + torch.ones(2)).isnan().any().logical_not().item())
"""
CONFIG = """
steps: 0-1
signature: false
collect: {aten: on}
capture:
  every: [{op: '.', role: [input, output], level: [full, stats]}]
  asked: [{name: '.', where: 'predicate.py:busy', level: [hash, stats]}]
"""


def test_ten_additions_are_ten_records(app, tmp_path):
    (tmp_path / "c.yaml").write_text(CONFIG)
    app(PREDICATE, "predicate.py")
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, app(JOB)], tmp_path)
    assert done.returncode == 0, done.stderr
    passes = [tdump.load_pass(file) for file in latest(tmp_path).passes(0)]
    assert len(passes) == 2
    for p in passes:
        assert Counter(c.op or c.path for c in p.calls()) == {"aten::add": 10, ".": 1, "inner": 1}
        outputs = [r for r in p.records() if r.role == "output" and r.op == "aten::add"]
        assert [p.tensor(r)[1].item() for r in outputs] == [float(n) for n in range(2, 12)]
        assert all(torch.isnan(p.tensor(r)[0]) for r in outputs)
