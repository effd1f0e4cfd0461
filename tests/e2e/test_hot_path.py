"""What tdump does on the job's own thread while every operator of MiniLM is recorded in full, and what is recorded."""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest
from conftest import BUILD, SOURCE, TDUMP_RUN, execute, latest

JOB = [sys.executable, str(SOURCE / "tests" / "e2e" / "jobs" / "hot_path.py")]
MODES = ["inference", "no_grad", "training"]
LAST = 5
# Of the jobs that count over many steps: what does not come in each one comes in the long run.
MANY, WARM = 48, 4
EVERY_ROLE = "[param, state, param_grad, input, output, grad_input, grad_output]"
COUNTER = BUILD / "tests" / "jobs" / "count_allocations.so"
LINE = r"^(\w+) (\d+) allocations (\d+) of tdump (\d+) texts (\d+) of tdump (\d+)$"
# The arena holds everything that the job makes, so that a slow disk is never waited for.
CONFIG = """
steps: all
memory: {host: 4GiB}
collect: {aten: on}
capture:
  - {op: '.*', role: [output, before, after], phase: [forward, backward], level: full}
  - {role: [output], level: full}
"""
# The heap gives nothing back to the system and asks it for nothing: what is left is what somebody called.
STEADY_HEAP = {
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
    "MALLOC_TRIM_THRESHOLD_": "2000000000",
    "MALLOC_TOP_PAD_": "268435456",
}


@pytest.fixture
def cwd(tmp_path):
    (tmp_path / "all.yaml").write_text(CONFIG)
    yield tmp_path
    shutil.rmtree(tmp_path / "outputs", ignore_errors=True)


def test_nothing_is_allocated_or_formatted_once_all_was_seen(cwd):
    done = execute([TDUMP_RUN, "-c", "all.yaml", "--", *JOB, *MODES], cwd, {"LD_PRELOAD": str(COUNTER)})
    assert done.returncode == 0, done.stderr
    counts = re.findall(LINE, done.stdout, re.M)
    assert [(mode, int(step)) for mode, step, *_ in counts] == [(mode, step) for mode in MODES for step in (0, LAST)]
    warm_up = [int(ours) for _, step, _, ours, _, _ in counts if step == "0"]
    assert warm_up[0] > 100, done.stdout  # the counter sees tdump: the first time it learns every operator
    for mode, step, total, ours, texts, our_texts in counts:
        assert int(texts) >= 1
        if int(step) == LAST:
            assert int(our_texts) == 0, f"{mode}: {our_texts} texts of {texts}\n{done.stderr}"
            assert int(total) > 1000 and int(ours) == 0, f"{mode}: {ours} of {total}\n{done.stderr}"


def allocated_in_many_steps(cwd: Path, roles: str, *command: str | Path) -> int:
    """Allocations of tdump's in the warm steps of a job that prints them."""
    (cwd / "roles.yaml").write_text(
        f"steps: all\nmemory: {{host: 256MiB}}\ncapture: [{{role: {roles}, phase: [forward, backward], level: full}}]\n"
    )
    done = execute([TDUMP_RUN, "-c", "roles.yaml", "--", *command], cwd, {"LD_PRELOAD": str(COUNTER)})
    assert done.returncode == 0, done.stderr
    counts = re.findall(LINE, done.stdout, re.M)
    assert [(mode, int(step)) for mode, step, *_ in counts] == [("training", 0), ("training", MANY - 1)]
    assert int(counts[0][3]) > 100, done.stdout  # the counter sees tdump
    _, _, total, ours, _, our_texts = counts[1]
    assert int(total) > 1000 and int(our_texts) == 0, f"{done.stdout}\n{done.stderr}"
    assert len(latest(cwd).passes(0)) == MANY
    return int(ours)


def kept_last(cwd: Path) -> set[tuple[str, str, str]]:
    import tdump

    return {(r.path, r.role, r.arg) for r in tdump.load_pass(latest(cwd).passes(0)[-1]).records()}


def test_nothing_is_allocated_for_parameters_and_buffers_of_cpp(cwd):
    roles = "[param, state, param_grad, input, output]"
    assert allocated_in_many_steps(cwd, roles, BUILD / "tests" / "jobs" / "cxx_hot_path") == 0
    assert kept_last(cwd) >= {
        ("0", "param", "weight"),
        ("0", "output", ""),
        ("1", "param_grad", "bias"),
        ("1", "state", "running_mean"),
    }


def test_nothing_is_allocated_over_many_steps_of_python(cwd):
    job = SOURCE / "tests" / "e2e" / "jobs" / "hot_steps.py"
    assert allocated_in_many_steps(cwd, "[param, state, param_grad, input, output]", sys.executable, job) == 0
    assert kept_last(cwd) >= {("0", "param", "weight"), ("7", "input", "0"), ("7", "output", "")}


# Of each tensor the list of hooks of its node and the list that the hook hands back, both as torch's interface has it. In
# Python what a module returns is what the next one takes; in C++ only calls of the eight Linears are seen, and the first
# one's input has no gradient.
@pytest.mark.parametrize(("job", "tensors"), [("hot_steps.py", 8), ("cxx_hot_path", 15)])
def test_gradients_take_two_allocations_a_tensor(cwd, job, tensors):
    python = job.endswith(".py")
    command = [sys.executable, SOURCE / "tests" / "e2e" / "jobs" / job] if python else [BUILD / "tests" / "jobs" / job]
    assert allocated_in_many_steps(cwd, EVERY_ROLE, *command) == (MANY - WARM) * 2 * tensors
    assert kept_last(cwd) >= {
        ("0", "grad_output", ""),
        ("2", "grad_input", "0"),
        ("2", "grad_output", ""),
        ("0", "param_grad", "weight"),
        ("0", "param", "weight"),
    }


def system_calls(trace: Path) -> list[Counter[str]]:
    """By name, of the thread that asked for the marks, from each mark to the next; ``sleeps`` are those of other threads."""
    sections: list[Counter[str]] = []
    inside = None
    for line in trace.read_text(errors="replace").splitlines():
        thread, call = line.split(None, 1)
        if "/hot_path_begins" in call:
            inside = thread
            sections.append(Counter())
        elif "/hot_path_ends" in call:
            inside = None
        elif inside is not None and (begun := re.match(r"(\w+)\(", call)):  # not a signal, an end or a "resumed>"
            name = begun[1]
            if name == "futex":
                name = "wait" if "FUTEX_WAIT" in call else "wake"
            if thread == inside:
                sections[-1][name] += 1
            elif name == "wait":
                sections[-1]["sleeps"] += 1
    return sections


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")
def test_no_system_call_is_made(cwd):
    traced = []
    for name, command in {"plain": JOB, "dumped": [TDUMP_RUN, "-c", "all.yaml", "--", *JOB]}.items():
        done = execute(["strace", "-f", "-o", name, *command, *MODES], cwd, STEADY_HEAP)
        assert done.returncode == 0, done.stderr
        traced.append(system_calls(cwd / name))
    plain, dumped = traced
    assert len(plain) == len(dumped) == 2 * len(MODES)
    for mode, before, after in zip(MODES, plain[1::2], dumped[1::2], strict=True):
        sleeps = after.pop("sleeps", 0)
        more = after - before
        # A writer that went to sleep is woken once. It slept when the step began, or fell asleep since.
        assert more.pop("wake", 0) <= sleeps + 1, f"{mode}: {after} instead of {before}, {sleeps} sleeps"
        # At the boundary a rank writes its slot, its state in it, and the number of the step into its journal.
        assert more.pop("pwrite64", 0) <= 3 and more.pop("statx", 0) <= 3, f"{mode}: {after} instead of {before}"
        assert not more, f"{mode}: {after} instead of {before}"
