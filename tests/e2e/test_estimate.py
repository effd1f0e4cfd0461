"""--estimate of a job of several ranks: one answer for all of them, whichever side of mpirun it stands on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest
from conftest import TDUMP_RUN, Run, execute, mpirun

JOB = """
    import os, sys, torch
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", 0))
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64)).eval()
    with torch.no_grad():
        for _ in range(3):
            net(torch.randn(64 * (1 + rank), 64))
    if sys.argv[1:] == ["fails"] and rank == 1:
        sys.exit(7)
"""
CONFIG = """
    steps: 0-2
    output: {dir: mine}
    capture:
      - {leaf: true, role: [input, output], level: full}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("estimate")
    (place / "app.py").write_text(textwrap.dedent(JOB))
    (place / "c.yaml").write_text(textwrap.dedent(CONFIG))
    (place / "tmp").mkdir()
    return place


@pytest.fixture
def inner(python):
    return [TDUMP_RUN, "-c", "c.yaml", "--", python, "app.py"]


@pytest.fixture(scope="module")
def real(place):
    """Bytes of what each rank really writes."""
    done = mpirun(2, [TDUMP_RUN, "-c", "c.yaml", "-o", "real", "--", sys.executable, "app.py"], place)
    assert done.returncode == 0, done.stderr
    run = Run(place / "real")
    return [sum(path.stat().st_size for path in run.passes(rank)) for rank in (0, 1)]


def nothing_is_left(place) -> bool:
    return not (place / "mine").exists() and not (place / "outputs").exists() and not list((place / "tmp").iterdir())


def check(text: str, real: list[int]) -> None:
    assert text.count("tdump-run: estimate for steps 0-2 on 2 ranks\n") == 1, text
    estimated = int(re.search(r"in all .*\((\d+) bytes\) in 6 files", text)[1])
    assert abs(estimated - sum(real)) <= 0.02 * sum(real) + 4096, f"{text}\nreal: {real}"
    largest, unit = re.search(r"largest    rank 1: ([0-9.]+) ([KM])iB", text).groups()
    assert float(largest) * {"K": 2**10, "M": 2**20}[unit] == pytest.approx(real[1], rel=0.1)


def test_around_mpirun_the_ranks_join_it(place, inner, real):
    launcher = ["mpirun", "--oversubscribe", "-n", "2"]
    told = execute([TDUMP_RUN, "--estimate", "--", *launcher, *inner], place, {"TMPDIR": str(place / "tmp")})
    assert told.returncode == 0, told.stderr
    assert nothing_is_left(place)
    check(told.stdout, real)


def test_below_mpirun_one_rank_speaks_for_all(place, inner, real):
    told = mpirun(2, [inner[0], "--estimate", *inner[1:]], place, {"TMPDIR": str(place / "tmp")})
    assert told.returncode == 0, told.stderr
    assert nothing_is_left(place)
    check("".join(told.printed), real)
    assert told.printed[1] == ""


def test_the_failure_of_a_rank_is_passed_on(place, inner):
    told = mpirun(2, [inner[0], "--estimate", *inner[1:], "fails"], place, {"TMPDIR": str(place / "tmp")})
    assert told.returncode == 7, told.stderr
    assert nothing_is_left(place)


def test_selected_ranks_that_wrote_nothing_are_named(place, python):
    command = [TDUMP_RUN, "-c", "c.yaml", "--estimate", "--", "sh", "-c"]
    job = f"test $OMPI_COMM_WORLD_RANK = 1 || exec {python} app.py"
    told = mpirun(2, [*command, job], place, {"TMPDIR": str(place / "tmp")})
    assert told.returncode == 0, told.stderr
    text = "".join(told.printed)
    assert "on 1 rank\n" in text and "without rank 1, which recorded no step or ran on another node" in text, text


WAITS = """
    import os, signal, sys, time, torch
    got = []
    signal.signal(signal.SIGUSR1, lambda number, frame: got.append(number))
    with torch.no_grad():
        for _ in range(2):
            torch.nn.Linear(4, 4)(torch.ones(1, 4))
    print("hangup ignored" if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else "hangup ends", flush=True)
    while not got:
        time.sleep(0.01)
    print("went on", flush=True)
"""


def test_signals_reach_the_job_as_they_would_without_an_estimate(place, python):
    (place / "waits.py").write_text(textwrap.dedent(WAITS))
    environment = {**os.environ, "TMPDIR": str(place / "tmp")}
    for ignored, words in ((False, "hangup ends"), (True, "hangup ignored")):
        job = subprocess.Popen(
            [TDUMP_RUN, "--estimate", "--", python, "waits.py"],
            cwd=place,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=(lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) if ignored else None,
        )
        assert job.stdout.readline() == words + "\n"
        if ignored:
            job.send_signal(signal.SIGHUP)
        job.send_signal(signal.SIGUSR1)
        text = job.communicate(timeout=120)[0]
        assert job.returncode == 0, text
        assert text.startswith("went on\n") and "estimate for steps" in text
    assert nothing_is_left(place)


def test_a_reader_that_leaves_is_no_trouble(place, python):
    command = [TDUMP_RUN, "-c", "c.yaml", "--estimate", "--", python, "app.py"]
    reader, writer = os.pipe()
    job = subprocess.Popen(command, cwd=place, env={**os.environ, "TMPDIR": str(place / "tmp")}, stdout=writer)
    os.close(writer)
    os.close(reader)
    assert job.wait(timeout=120) == 0
    with open("/dev/full", "w") as full:
        told = subprocess.run(command, cwd=place, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert told.returncode == 2
    assert "cannot write the estimate" in told.stderr
    assert nothing_is_left(place)


def test_the_limit_of_the_output_does_not_cut_the_estimate(place, python):
    def estimate(*settings):
        command = [TDUMP_RUN, "-c", "c.yaml", *settings, "--estimate", "--", python, "app.py"]
        return execute(command, place, {"TMPDIR": str(place / "tmp")}).stdout

    def total(text):
        return re.search(r"in all .*\((\d+) bytes\)", text)[1]

    limited = estimate("--set", "output.limit=1KiB")
    assert total(limited) == total(estimate())
    assert "output.limit 1.0 KiB" in limited
