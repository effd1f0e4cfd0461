"""Modules inside a program of torch.export, against those of the model in eager code."""

from __future__ import annotations

import sys

import tdump
import torch
from conftest import TDUMP_RUN, execute, latest

CONFIG = """
steps: all
signature: false
compile: {taps: on}
capture: [{role: [input, output], level: full}]
"""
# An export that throws comes before the one that does not. One part is made in each call. A name has a tab, a
# backslash and a newline, and is that of an argument as well.
JOB = r"""
import sys
import torch
from torch import nn

ODD = "a\tb\\n\n"

class Named(nn.Module):
    def forward(self, given: dict[str, torch.Tensor]) -> torch.Tensor:
        return given[ODD] + 1

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)
        self.add_module(ODD, Named())
        self.add_module("again\t", getattr(self, ODD))
        self.fails = False

    def forward(self, x):
        h = nn.Softmax(dim=-1)(self.first(x))
        if self.fails:
            raise RuntimeError("as it was asked to")
        return self.last(getattr(self, ODD)({ODD: h}))

torch.manual_seed(0)
bad, model, x = Model(), Model(), torch.ones(3, 4)
if sys.argv[1:]:
    bad.fails = True
    try:
        torch.export.export(bad, (x,))
    except RuntimeError:
        program = torch.export.export(model, (x,))
    torch.fx.Interpreter(program.module()).run(x)  # no call of a module
else:
    model(x)
"""


def captured(cwd, *words):
    cwd.mkdir()
    (cwd / "job.py").write_text(JOB)
    (cwd / "c.yaml").write_text(CONFIG)
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, "-W", "ignore", "job.py", *words], cwd)
    assert done.returncode == 0, done.stderr
    opened = [tdump.load_pass(file) for file in latest(cwd).passes(0)]
    return {record.key: (record.aliases, seen.tensor(record)) for seen in opened for record in seen.records()}


def test_a_module_made_in_forward_ends_no_program_and_names_are_of_any_characters(tmp_path):
    eager, exported = captured(tmp_path / "eager"), captured(tmp_path / "exported", "export")
    named = {key: found for key, found in eager.items() if "Softmax" not in key}
    exported = {key: found for key, found in exported.items() if "_guards_fn" not in key}  # a module of torch's own
    assert exported.keys() == named.keys() and any(key.count("%09") == 2 for key in named)
    for key, (aliases, value) in named.items():
        assert exported[key][0] == aliases
        assert torch.allclose(exported[key][1], value), key
