"""tdump.print, tdump.inspector and what they are given never fail a job, and are none of its operators."""

from __future__ import annotations

import pytest
import tdump
import torch
from tdump._instrument import Instrumented
from torch import nn

BACKENDS = [None, "eager", "aot_eager"]
norms = tdump.inspector(fwd=lambda x: f"norm {x.norm()}", bwd=lambda g: f"grad {g.norm()}")


def needs_gradient(*shape):
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape).requires_grad_()


def test_what_cannot_be_printed_is_told_once(capfd):
    for _ in range(2):
        tdump.print("{} {}", torch.ones(1))
        tdump.print("x", phase="sideways")
    printed = capfd.readouterr()
    assert printed.out == ""
    assert [line.split("said once: ")[1] for line in printed.err.splitlines()] == [
        "IndexError: Replacement index 1 out of range for positional args tuple",
        "phase 'sideways' is none of forward, backward, both",
    ]


class Silent:
    def __str__(self):
        raise RuntimeError("no text")


def test_what_is_given_to_print_never_fails_the_job(capfd):
    endless, x = [], torch.ones(1)
    endless.append(endless)
    for _ in range(2):
        tdump.print("no str {}", Silent())
        tdump.print("endless {}", endless)
        tdump.print("true", ranks=True)
        tdump.print("half", ranks=0.5)
        assert norms(endless) is endless and norms(x, ranks="first") is x
        with tdump.instrument(nn.Linear(1, 1), ranks=0.25) as none:
            assert isinstance(none, Instrumented)
    printed = capfd.readouterr()
    assert printed.out == ""
    told = [line.split("said once: ")[1] for line in printed.err.splitlines()]
    assert [line.split(": ")[0] for line in told] == [
        "RuntimeError",
        "RecursionError",
        "ValueError",
        "TypeError",
        "RecursionError",
        "TypeError",
    ]
    assert told[2] == "ValueError: ranks 'True': neither numbers of ranks nor 'all'"


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_fails_in_each_step_with_other_values_is_told_once(capfd, backend):
    def step(x, text):
        tdump.print("backend " + str(backend) + " {:.3f} {}", x, text)
        return x * 2

    torch._dynamo.reset()
    code = step if backend is None else torch.compile(step, backend=backend, fullgraph=True)
    for number in range(3):
        code(torch.ones(2), f"step {number}")
    assert len(capfd.readouterr().err.splitlines()) == 1


def test_what_callbacks_compute_is_no_operator_of_the_job():
    x = needs_gradient(3)
    with torch.autograd.profiler.profile() as profile:
        (norms(x) * 2).sum().backward()
    names = {event.name for event in profile.function_events}
    assert "aten::mul" in names and not any("norm" in name for name in names)


def test_to_look_is_no_operator_of_the_job():
    x = needs_gradient(3)
    outer = tdump.inspector(fwd=lambda x: (norms(x), x.cumsum(0))[1])
    with torch.autograd.profiler.profile() as profile:
        tdump.print("{} {}", x, 1.5, phase="both")
        outer(x)
        (x * 2).sum().backward()
    names = {event.name for event in profile.function_events}
    assert "aten::mul" in names
    assert not names & {"aten::scalar_tensor", "aten::cumsum", "tdump::inspect"}


def raises(tensor):
    raise RuntimeError(f"callback with {tensor.tolist()}")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_callback_that_raises_is_told_once(capfd, backend):
    look = tdump.inspector(fwd=raises, bwd=raises)
    torch._dynamo.reset()

    def function(x):
        return look(x * 2) * 2

    code = function if backend is None else torch.compile(function, backend=backend, fullgraph=True)
    x = needs_gradient(2)
    for _ in range(2):
        code(x).sum().backward()
    assert x.grad.tolist() == [8, 8]
    (line,) = capfd.readouterr().err.splitlines()
    assert line.endswith("RuntimeError: callback with [2.0, 4.0]")
