"""A job may move its recursion limit at any time, and compilers do: no call is taken for one that was left behind."""

from __future__ import annotations

import pytest
import tdump
from conftest import TDUMP_RUN, execute, latest

# A compiler that raises the limit within the call of the model, and leaves it so.
COMPILES = """
import sys, torch

def backend(graph, inputs):
    sys.setrecursionlimit(sys.getrecursionlimit() + 1000)
    return graph.forward

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        self.part = torch.compile(self.first, backend=backend)
    def forward(self, x):
        return self.second(self.part(x))

model = Model()
for step in range(3):
    model(torch.ones(1, 2))
"""

MOVES = """
import sys, torch

class Moves(torch.nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by, self.inner = by, torch.nn.Linear(2, 2)
    def forward(self, x):
        sys.setrecursionlimit(sys.getrecursionlimit() + self.by)
        return self.inner(x)

model = torch.nn.Sequential(Moves(FIRST), Moves(SECOND), torch.nn.ReLU())
for step in range(3):
    model(torch.ones(1, 2))
"""

# The first thread is within its call while the second one calls, which looks whether others were left.
THREADS = """
import sys, threading, torch

class Waits(torch.nn.Module):
    def forward(self, x):
        inside.set()
        go_on.wait()
        return x + 1

class Adds(torch.nn.Module):
    def forward(self, x):
        return x + 2

inside, go_on = threading.Event(), threading.Event()
waits = torch.nn.Sequential(torch.nn.Linear(2, 2), Waits())
other = torch.nn.Sequential(torch.nn.Linear(2, 2), Adds())
first = threading.Thread(target=lambda: waits(torch.ones(1, 2)))
first.start()
inside.wait()
sys.setrecursionlimit(sys.getrecursionlimit() + 1000)
other(torch.ones(1, 2))
go_on.set()
first.join()
"""

OUTPUTS = "steps: all\ncapture: [{level: full, role: output}]\n"


def outputs(folder):
    """Names of the modules whose outputs are there, of each step."""
    return [set(tdump.load_pass(file)) for file in latest(folder).passes(0)]


def test_a_compiler_that_raises_the_limit_loses_no_output(tmp_path, app, python):
    (tmp_path / "tdump.yaml").write_text(OUTPUTS)
    done = execute([TDUMP_RUN, "-c", "tdump.yaml", "--", python, app(COMPILES)], tmp_path)
    assert done.returncode == 0 and "an exception left" not in done.stderr, done.stderr
    steps = outputs(tmp_path)
    assert len(steps) == 3 and all({".", "second"} <= step for step in steps), steps


@pytest.mark.parametrize(("first", "second"), [(1000, 0), (-200, 0), (1000, -900), (-200, 300)])
def test_a_model_that_moves_the_limit_is_recorded_whole(tmp_path, app, python, first, second):
    (tmp_path / "tdump.yaml").write_text(OUTPUTS)
    job = app(MOVES.replace("FIRST", str(first)).replace("SECOND", str(second)))
    done = execute([TDUMP_RUN, "-c", "tdump.yaml", "--", python, job], tmp_path)
    assert done.returncode == 0 and "an exception left" not in done.stderr, done.stderr
    assert "COMPLETE" in done.stderr and "INCOMPLETE" not in done.stderr, done.stderr
    assert all({".", "0", "0.inner", "1", "1.inner", "2"} <= step for step in outputs(tmp_path)), done.stderr


def test_a_thread_that_raises_the_limit_ends_no_call_of_another(tmp_path, app, python):
    (tmp_path / "tdump.yaml").write_text(OUTPUTS)
    done = execute([TDUMP_RUN, "-c", "tdump.yaml", "--", python, app(THREADS)], tmp_path)
    assert done.returncode == 0 and "an exception left" not in done.stderr, done.stderr
