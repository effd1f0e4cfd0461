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


DEEPER = """
import pathlib, re, torch
class Net(torch.nn.Module):
    def forward(self, x, n):
        for i in range(n):
            x = x + 1
        return x
def stack():  # KiB that the stack of this thread ever took
    return int(re.search(r"VmStk:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1])
net, x = Net(), torch.tensor([float("nan"), 1.0])
with torch.no_grad():
    net(x, 10)
    before = stack()
    net(x, 20_000)
    print(before, stack())
"""


def test_twenty_thousand_additions_take_no_more_stack_than_ten(app, tmp_path):
    (tmp_path / "c.yaml").write_text(CONFIG)
    app(PREDICATE, "predicate.py")
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, app(DEEPER)], tmp_path)
    assert done.returncode == 0, done.stderr
    before, after = map(int, done.stdout.split())
    assert before <= after <= before + 8  # two pages; one frame more a call would be a MiB
    (_, second) = [tdump.load_pass(file) for file in latest(tmp_path).passes(0)]
    assert Counter(c.op for c in second.calls())["aten::add"] == 20_000


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
