"""What tdump does to the processes of a job: starts none, lets every kind of child run, and keeps what a signal cuts."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import warnings
from collections import Counter

import pytest
import tdump
import torch
from conftest import BUILD, TDUMP_RUN, clean_environment, execute, latest, mpirun

CXX = BUILD / "tests" / "cxx_modules"
COUNTER = BUILD / "tests" / "jobs" / "count_allocations.so"
TRAINING = BUILD / "bin" / "examples" / "tp_transformer"
CONFIG = "steps: 0-2\ncollect: {aten: on}\n"


# ---- H10: no process is started ----


def traced(words, out):
    """The command line that runs `words` and writes their system calls about processes to `out`."""
    return ["strace", "-f", "-qq", "-e", "trace=fork,vfork,clone,clone3,execve,execveat", "-o", str(out), *words]


def started(out):
    """Programs that were executed, and the calls that made a process, not a thread."""
    lines = [line for line in out.read_text(errors="replace").splitlines() if "<... " not in line]
    programs = [re.search(r'execve\w*\("([^"]+)"', line)[1] for line in lines if re.search(r"execve\w*\(.*= 0$", line)]
    made = [line for line in lines if re.search(r"\b(v?fork|clone3?)\(", line) and "CLONE_THREAD" not in line]
    return programs, made


@pytest.fixture
def strace(tmp_path):
    if shutil.which("strace") is None or execute(traced(["true"], tmp_path / "try"), tmp_path).returncode != 0:
        pytest.skip("strace is not here, or may trace nothing")


def test_a_rank_starts_no_process(strace, tmp_path):
    (tmp_path / "c.yaml").write_text(CONFIG)
    done = execute(traced([TDUMP_RUN, "-c", "c.yaml", "--", str(CXX)], tmp_path / "calls"), tmp_path)
    assert done.returncode == 0 and "COMPLETE" in done.stderr, done.stderr
    programs, made = started(tmp_path / "calls")
    assert programs == [TDUMP_RUN, str(CXX)] and made == []
    assert "CLONE_THREAD" in (tmp_path / "calls").read_text()  # the writer: threads are seen


PYTHON = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


def test_a_rank_of_python_starts_no_process(strace, app, tmp_path):
    """What importing torch starts, it starts without tdump too; less where triton, say, has kept what it found."""
    (tmp_path / "c.yaml").write_text(CONFIG)
    job = [sys.executable, app(PYTHON)]
    bare = execute(traced(job, tmp_path / "bare"), tmp_path)
    done = execute(traced([TDUMP_RUN, "-c", "c.yaml", "--", *job], tmp_path / "calls"), tmp_path)
    assert bare.returncode == done.returncode == 0 and "COMPLETE" in done.stderr, done.stderr
    (programs, made), (bare_programs, bare_made) = started(tmp_path / "calls"), started(tmp_path / "bare")
    assert not Counter(programs) - Counter([TDUMP_RUN, *bare_programs]) and programs[0] == TDUMP_RUN
    assert len(made) <= len(bare_made)
    assert "CLONE_THREAD" in (tmp_path / "calls").read_text()


@pytest.mark.skipif(not TRAINING.exists(), reason="built without examples or MPI")
def test_ranks_of_an_mpi_job_start_no_process(strace, tmp_path):
    (tmp_path / "c.yaml").write_text(CONFIG)
    rank = ["sh", "-c", 'exec "$0" "$@" -o calls.$OMPI_COMM_WORLD_RANK ' + " ".join([TDUMP_RUN, "-c", "c.yaml", "--"])]
    rank[2] += f" {TRAINING} --steps 2"
    done = mpirun(2, [*rank, *traced([], "unused")[:-2]], tmp_path)
    assert done.returncode == 0 and "COMPLETE" in done.stderr, done.stderr
    assert "fork" not in done.stderr  # Open MPI warns of it
    for number in range(2):
        programs, made = started(tmp_path / f"calls.{number}")
        assert programs == [TDUMP_RUN, str(TRAINING)] and made == []


# ---- H05: children that a preloaded object may disturb ----

CHILD = '#include <stdio.h>\n#include <stdlib.h>\nint main(void) { free(malloc(1)); puts("child"); return 3; }\n'
BUILDS = {
    "address": ["-fsanitize=address"],
    "undefined": ["-fsanitize=undefined"],
    "leak": ["-fsanitize=leak"],
    "thread": ["-fsanitize=thread"],
    "static": ["-static"],
    "static and relocated": ["-static-pie"],
}


@pytest.mark.parametrize("kind", BUILDS)
def test_a_child_of_another_build_runs(kind, tmp_path):
    (tmp_path / "child.c").write_text(CHILD)
    built = execute(["cc", *BUILDS[kind], "child.c", "-o", "child"], tmp_path)
    if built.returncode != 0:
        pytest.skip(f"cc {BUILDS[kind][0]}: {built.stderr.splitlines()[-1]}")
    for job in (["./child"], ["sh", "-c", "./child; exit $?"]):
        done = execute([TDUMP_RUN, "--dump", "--", *job], tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (3, "child\n", "")


def test_options_of_the_address_sanitizer_are_kept(tmp_path):
    options = [TDUMP_RUN, "--dump", "--", "sh", "-c", "echo $ASAN_OPTIONS"]
    added = execute(options, tmp_path, {"ASAN_OPTIONS": "detect_leaks=0"})
    assert added.stdout == "detect_leaks=0:verify_asan_link_order=0\n"
    kept = execute(options, tmp_path, {"ASAN_OPTIONS": "verify_asan_link_order=1"})
    assert kept.stdout == "verify_asan_link_order=1\n"


@pytest.mark.parametrize("kind", ["absent", "no object", "a directory", "no permission"])
def test_a_preload_that_cannot_be_read_stays_the_job_s_own_trouble(kind, tmp_path):
    preload = tmp_path / "none.so"
    reading: list[str] = []
    if kind == "no object":
        preload.write_text("not an object\n")
    elif kind == "a directory":
        preload.mkdir()
    elif kind == "no permission":
        shutil.copy(COUNTER, preload)  # would load
        preload.chmod(0)
        if os.access(preload, os.R_OK):  # root: without the rights to pass over permissions
            reading = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
            if execute([*reading, "cat", preload], tmp_path).stderr.count("Permission denied") != 1:
                pytest.skip("nothing is unreadable here")
    job = ["sh", "-c", "echo ran; exit 4"]
    with_it = ["env", f"LD_PRELOAD={preload}"]
    bare = execute([*reading, *with_it, *job], tmp_path)
    done = execute([*reading, *with_it, TDUMP_RUN, "--dump", "--", *job], tmp_path)
    assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout) == (4, "ran\n")
    assert "none.so" in bare.stderr and "none.so" in done.stderr
    assert "tdump" not in done.stderr.replace(str(tmp_path), "")


# ---- H07: forks beside a busy writer ----

FORKING = """
import os, signal, threading
import tdump, torch
stop = False
def busy():
    value = torch.arange(1 << 16)
    while not stop:
        value += 1
        tdump.tap(value, "busy")
        tdump.tap(value, "hashed")
tdump.step()
tdump.tap(torch.ones(1), "first")
thread = threading.Thread(target=busy)
thread.start()
failed = 0
for n in range(100):
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)  # a child that hangs is killed
        tdump.tap(torch.ones(1), "child")
        tdump.step(object())  # no number: a message
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    failed += status != 0
stop = True
thread.join()
tdump.step()
tdump.tap(torch.full((3,), 7.0), "last")
print("failed", failed)
"""


def test_a_hundred_children_beside_a_busy_writer(app, tmp_path):
    (tmp_path / "c.yaml").write_text(
        "steps: {select: all, boundary: explicit}\nmemory: {host: 16MiB, at_limit: drop}\noutput: {limit: 1GB}\n"
        # As much as the limit takes is written while the children begin; then the writer is busy with hashes.
        "capture: [{name: busy, max: 200}, {name: hashed, level: hash}, {name: .}]\n"
    )
    done = execute(
        [TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, app(FORKING)], tmp_path, {"PYTHONPATH": str(BUILD / "python")}
    )
    assert (done.returncode, done.stdout) == (0, "failed 0\n"), done.stderr
    run = latest(tmp_path)
    assert len(run.ranks()[0]) == 1  # no child is a process of the run
    first, second = (tdump.load_pass(file) for file in run.passes(0))
    names = {r.name for r in first.records()}
    assert {"first", "busy", "hashed"} <= names and "child" not in names
    # After the forks the parent records as before them.
    assert [r.name for r in second.records()] == ["last"]
    last = second.record("last")
    assert last.reason == "memory limit" if last.bytes is None else torch.equal(second["last"], torch.full((3,), 7.0))
    assert "object" not in done.stderr


COUNTING = """
import ctypes, os, sys
import tdump, torch
counter = ctypes.CDLL(None)
tdump.step()
tdump.tap(torch.ones(1), "first")
seen = []
for n in range(5):
    if not counter.counting_begin():
        sys.exit("tdump is not there")
    pid = os.fork()
    counts = (ctypes.c_long * 4)()
    counter.counting_end(counts)
    if pid == 0:
        os._exit(counts[1] + counts[3])  # of this thread, while it forked
    seen.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
counter.counting_begin()
tdump.tap(torch.ones(1), "told")
counter.counting_end(counts)
print(seen, counts[1] > 0)
"""


def test_nothing_is_allocated_or_formatted_where_a_child_begins(app, tmp_path):
    (tmp_path / "c.yaml").write_text("steps: {select: all, boundary: explicit}\n")
    environment = {"PYTHONPATH": str(BUILD / "python"), "LD_PRELOAD": str(COUNTER)}
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, app(COUNTING)], tmp_path, environment)
    assert (done.returncode, done.stdout) == (0, "[0, 0, 0, 0, 0] True\n"), done.stderr


# ---- H11: a scheduler ends the job ----

WRITING = """
import sys, time
import tdump, torch
value = torch.arange(1 << 21)  # 16 MiB
for step in range(1000):
    tdump.step()
    for n in range(8):
        value += 1
        tdump.tap(value, f"t{n}")
    print(step, flush=True)
"""


def test_what_was_written_when_sigterm_came_is_readable(app, tmp_path):
    (tmp_path / "c.yaml").write_text(
        "steps: {select: all, boundary: explicit}\nmemory: {host: 64MiB, max_block: 100%}\n"
    )
    job = subprocess.Popen(
        [TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, app(WRITING)],
        cwd=tmp_path,
        env=clean_environment({"PYTHONPATH": str(BUILD / "python")}),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert job.stdout.readline() == "0\n" and job.stdout.readline() == "1\n"
    # A pass has just been begun: it has 128 MiB, and the job is ahead of the writer.
    begun = set((tmp_path / "outputs" / "latest").glob("rank0_*/*.part"))
    while not set((tmp_path / "outputs" / "latest").glob("rank0_*/*.part")) - begun:
        assert job.poll() is None
    job.send_signal(signal.SIGTERM)
    assert job.wait(60) == -signal.SIGTERM
    run = latest(tmp_path)
    files = [path for folder in run.ranks()[0] for path in sorted(folder.glob("pass*"))]
    (part,) = [file for file in files if file.suffix == ".part"]
    assert part == files[-1]
    first = torch.arange(1 << 21)
    read = 0
    for number, file in enumerate(files):
        with warnings.catch_warnings(record=True) as announced:
            warnings.simplefilter("always")
            p = tdump.load_pass(file)
            assert [f"unfinished pass, read as far as it goes: {file}" in str(w.message) for w in announced] == (
                [True] if file == part else []
            )
            assert p.complete == (file != part)
            names = [r.name for r in p.records() if r.bytes is not None]
            for name in names:
                assert torch.equal(p[name], first + 8 * number + int(re.search(r"t(\d)", name)[1]) + 1), (file, name)
                read += 1
        assert file.suffix == ".part" or len(names) == 8
    assert read > 0
    coverage = execute([BUILD / "bin" / "tdump-view", str(run.path)], tmp_path)
    assert "INCOMPLETE" in coverage.stdout + coverage.stderr
    assert f"in step {len(files) - 1}" in coverage.stdout + coverage.stderr
