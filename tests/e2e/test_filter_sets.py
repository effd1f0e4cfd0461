"""Filter sets decide on their own: what one wants in one step is not taken in another, nor twice where both want it."""

from __future__ import annotations

import sys

import tdump
from conftest import TDUMP_RUN, execute, latest

JOB = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right, self.both = (torch.nn.Linear(3, 3) for _ in range(3))
    def forward(self, x):
        return self.both(self.left(x) + self.right(x))
net = Net()
with torch.no_grad():
    for _ in range(3):
        net(torch.ones(1, 3))
"""
CONFIG = """
steps: 0-2
signature: false
capture:
  first: [{name: '^(left|both)$', steps: 0-1, level: hash}]
  second: [{name: '^(right|both)$', steps: 1, level: full}]
  elsewhere: [{name: '.', ranks: 1, level: full}]
  later: [{name: '^left$', steps: 2, call: 1, level: full}]
"""
FIRST, SECOND = 0b01, 0b10
META_HASH, META_HASH_PAYLOAD = {"meta", "hash"}, {"meta", "hash", "payload"}


def test_each_set_takes_its_own_steps_and_what_both_want_is_kept_once(app, tmp_path):
    (tmp_path / "sets.yaml").write_text(CONFIG)
    done = execute([TDUMP_RUN, "-c", "sets.yaml", "--", sys.executable, app(JOB)], tmp_path)
    assert done.returncode == 0, done.stderr
    seen = []
    for file in latest(tmp_path).passes(0):
        p = tdump.load_pass(file)
        seen.append({(r.path, r.role): (r.filter_sets, set(r.kept)) for r in p.records()})
        assert len(seen[-1]) == len(list(p.records()))  # no record twice
    assert seen == [
        {("left", "output"): (FIRST, META_HASH), ("both", "output"): (FIRST, META_HASH)},
        {
            ("left", "output"): (FIRST, META_HASH),
            ("right", "output"): (SECOND, META_HASH_PAYLOAD),
            ("both", "output"): (FIRST | SECOND, META_HASH_PAYLOAD),
        },
        {},
    ]
