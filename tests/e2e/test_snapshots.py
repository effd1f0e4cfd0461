"""A record holds the value of its moment, however late it is written and whatever is done to the tensor meanwhile."""

from __future__ import annotations

import sys

import pytest
import tdump
import torch
import torch.nn.functional as F
from conftest import BUILD, TDUMP_RUN, execute, latest

CXX = BUILD / "tests" / "cxx_modules"  # Linear, ReLU in place, Linear; three steps
SLOW_WRITER = BUILD / "tests" / "jobs" / "slow_writer.so"
CONFIG = "steps: 0-2\ncapture: [{role: [param, input, output], level: full}]\n"
PYTHON = """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(inplace=True), torch.nn.Linear(6, 2))
x = torch.randn(3, 4)
with torch.no_grad():
    for step in range(3):
        y = net(x)
        y.data.fill_(7)
        x.add_(1)
"""


@pytest.mark.parametrize("where", ["c++", "python"])
def test_a_writer_a_second_late_writes_the_values_of_the_calls(where, app, tmp_path):
    (tmp_path / "c.yaml").write_text(CONFIG)
    job = [CXX] if where == "c++" else [sys.executable, app(PYTHON)]
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", *job], tmp_path, {"LD_PRELOAD": str(SLOW_WRITER)})
    assert done.returncode == 0 and "COMPLETE" in done.stderr, done.stderr
    assert "slow_writer: a writer waits" in done.stderr
    passes = [tdump.load_pass(file) for file in latest(tmp_path).passes(0)]
    assert len(passes) == 3
    for p in passes:
        params = {f"{n}.{part}": p[f"{n}@param#{part}"] for n in "02" for part in ("weight", "bias")}
        # In its second step the C++ job calls the first module once more, with a shape that it refuses.
        x = p[f"0::call{int(where == 'c++' and p is passes[1])}@input#0"]
        linear = F.linear(x, params["0.weight"], params["0.bias"])
        assert (linear < 0).any()
        assert torch.equal(p["0"], linear)
        assert torch.equal(p["1@input#0"], linear) and torch.equal(p["1"], F.relu(linear))
        assert torch.equal(p["2@input#0"], F.relu(linear))
        assert torch.equal(p["2"], F.linear(F.relu(linear), params["2.weight"], params["2.bias"]))
    if where == "python":
        inputs = [p["0@input#0"] for p in passes]
        assert torch.equal(inputs[1], inputs[0] + 1) and torch.equal(inputs[2], inputs[0] + 1 + 1)
