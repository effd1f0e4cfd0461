"""--estimate: one answer for all ranks, whichever side of mpirun it stands on, and what it is worth."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from statistics import median

import pytest
from conftest import BUILD, SOURCE, TDUMP_RUN, Run, clean_environment, execute, mpirun

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
    words = "tdump-run: the job of rank 1 ended with status 7, so no estimate is made; run it without --estimate"
    assert told.stderr.count(words) == 1, told.stderr
    assert nothing_is_left(place)


CRASHES = """
    import os, sys, torch
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    net[0].register_forward_hook(lambda module, args, output: ends() if step == int(sys.argv[2]) else None)
    ends = {"abort": os.abort, "exit": lambda: sys.exit(3)}[sys.argv[1]]
    with torch.no_grad():
        for step in range(4):
            net(torch.ones(1, 8))
"""


def test_steps_that_the_job_does_not_come_to_are_told(place, python):
    command = [TDUMP_RUN, "-c", "c.yaml", "--steps", "100-200", "--estimate", "--", python, "app.py"]
    told = execute(command, place, {"TMPDIR": str(place / "tmp")})
    assert told.returncode == 2 and told.stderr.count("tdump-run: ") == 1, told.stderr
    assert "tdump-run: the job ended after 3 steps; steps 100-200 selects none, so there is nothing" in told.stderr
    assert nothing_is_left(place)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system of a few MiB, as root")
def test_an_estimate_for_which_there_was_no_room_is_none(place, python):
    small = place / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", small], check=False).returncode != 0:
        pytest.skip("a file system cannot be mounted here")
    try:
        (small / "fill").write_bytes(bytes(2_900 << 10))
        command = [TDUMP_RUN, "-c", "c.yaml", "--estimate", "--", python, "app.py"]
        told = execute(command, place, {"TMPDIR": str(small)})
    finally:
        subprocess.run(["umount", small], check=True)
    assert told.returncode == 2 and "estimate for steps" not in told.stdout, told.stdout
    assert re.search(r"no estimate: \d+ records? of the steps looked at found no room on the disk of ", told.stderr)
    assert f"the disk of {small} (" in told.stderr and "TMPDIR names another place" in told.stderr, told.stderr


@pytest.mark.parametrize("around", [[], ["mpirun", "--oversubscribe", "-n", "1"]])
def test_a_job_that_dies_in_its_first_step_is_told_with_its_status(place, python, around):
    (place / "crashes.py").write_text(textwrap.dedent(CRASHES))
    below = [*around, TDUMP_RUN, "-c", "c.yaml", "--"] if around else []
    job = [*below, python, "crashes.py", "abort", "0"]
    told = execute([TDUMP_RUN, "-c", "c.yaml", "--estimate", "--", *job], place, {"TMPDIR": str(place / "tmp")})
    assert told.returncode == 134 and "estimate for steps" not in told.stdout, told.stdout + told.stderr
    assert told.stderr.count("tdump-run: ") == 1, told.stderr
    assert "the job ended with status 134 (Aborted) before tdump had written a selected step" in told.stderr
    assert "run it without --estimate to see whether it fails by itself" in told.stderr
    assert nothing_is_left(place)


def test_an_estimate_says_that_its_job_failed_and_that_a_step_may_be_cut(place, python):
    (place / "crashes.py").write_text(textwrap.dedent(CRASHES))

    def estimate(step):
        command = [TDUMP_RUN, "-c", "c.yaml", "--estimate", "--", python, "crashes.py", "exit", str(step)]
        told = execute(command, place, {"TMPDIR": str(place / "tmp")})
        assert told.returncode == 3 and "estimate for steps 0-2" in told.stdout, told.stderr
        return told.stdout

    assert "the job ended with status 3; step 0, its last one, may not have been a whole one; run it" in estimate(0)
    assert "the job ended with status 3; run it without --estimate" in estimate(3)


def test_a_command_that_is_not_there_is_told_once(place):
    told = execute([TDUMP_RUN, "-c", "c.yaml", "--estimate", "--", "./nosuch"], place, {"TMPDIR": str(place / "tmp")})
    assert told.returncode == 127 and told.stderr.count("tdump-run: ") == 1, told.stderr
    assert "cannot start './nosuch'" in told.stderr


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


# ---- the figures, against the run that they are of ----

ENCODER = SOURCE / "bench" / "jobs" / "encoder.py"
TP_TRANSFORMER = BUILD / "bin" / "examples" / "tp_transformer"
STEPS = 4
LEAVES = "steps: 0-3\ncapture: [{leaf: true, level: %s}]\n"
ATEN = "steps: 0-3\ncollect: {aten: on}\ncapture: [{leaf: true, level: full}]\n"
GRADIENTS = (
    "steps: 0-2\ncapture:\n  - {leaf: true, level: full}\n"
    "  - {leaf: true, role: [grad_input, grad_output, param_grad], phase: [forward, backward], level: full}\n"
)


def numbers(text: str) -> tuple[list[int], int, int]:
    """Records a step of each rank, and of all ranks and steps the bytes and files."""
    records = [int(n.replace(",", "")) for n in re.findall(r"^  rank \d+ +([\d,]+) records a step", text, re.M)]
    total = re.search(r"^  in all .*\((\d+) bytes\) in (\d+) files", text, re.M)
    assert total, text
    return records, int(total[1]), int(total[2])


def written(run: Run) -> tuple[list[int], int, int]:
    """The same of a run."""
    import tdump

    passes = [run.passes(rank) for rank in sorted(run.ranks())]
    files = [file for of_rank in passes for file in of_rank]
    records = [len(list(tdump.load_pass(of_rank[-1]).records())) for of_rank in passes]
    return records, sum(file.stat().st_size for file in files), len(files)


@pytest.mark.parametrize(
    ("name", "config", "within"),
    # Only what a file has beside values is not exact; of statistics that is nearly all.
    [("full", LEAVES % "full", 0.005), ("stats", LEAVES % "stats", 0.03), ("aten", ATEN, 0.01)],
)
def test_the_figures_of_minilm_are_those_of_the_run(tmp_path, name, config, within):
    (tmp_path / "c.yaml").write_text(config)
    job = [sys.executable, ENCODER, "--batch", "2", "--tokens", "32", "--warm-up", str(STEPS)]
    told = execute([TDUMP_RUN, "-c", "c.yaml", "--estimate", "--", *job], tmp_path)
    done = execute([TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", *job], tmp_path)
    assert told.returncode == done.returncode == 0, told.stderr + done.stderr
    records, size, files = numbers(told.stdout)
    really = written(Run(tmp_path / "run"))
    assert (records, files) == (really[0], really[2])
    assert size == pytest.approx(really[1], rel=within), f"{told.stdout}\nreally: {really}"


@pytest.mark.skipif(not TP_TRANSFORMER.exists(), reason="built without examples or MPI")
def test_the_figures_of_a_training_of_two_ranks_are_those_of_the_run(tmp_path):
    (tmp_path / "c.yaml").write_text(GRADIENTS)
    told = mpirun(2, [TDUMP_RUN, "-c", "c.yaml", "--estimate", "--", TP_TRANSFORMER], tmp_path)
    done = mpirun(2, [TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", TP_TRANSFORMER], tmp_path)
    assert told.returncode == done.returncode == 0, told.stderr + done.stderr
    records, size, files = numbers("".join(told.printed))
    really = written(Run(tmp_path / "run"))
    assert (records, files) == (really[0], really[2])
    assert size == pytest.approx(really[1], rel=0.005), f"{told.printed}\nreally: {really}"


class Turns:
    """The encoder, a step whenever it is told to; CPU seconds of the thread that steps."""

    def __init__(self, command, cwd):
        self.process = subprocess.Popen(
            [str(word) for word in command],
            cwd=cwd,
            env=clean_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"

    def step(self) -> float:
        self.process.stdin.write("1\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline().split()[1]) / 1e9

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=240) == 0


def wait_until_written(run: Path) -> None:
    """Until every thread of the job sleeps, none of them to come back from the disk."""
    process = re.search(r"_pid(\d+)$", str(next(run.glob("rank0_pid*"))))[1]
    deadline = time.monotonic() + 120
    asleep = 0
    while asleep < 5:
        assert time.monotonic() < deadline, f"{run} is still written to after 120 s"
        states = {stat.read_text().rsplit(") ")[-1][0] for stat in Path(f"/proc/{process}/task").glob("*/stat")}
        asleep = asleep + 1 if states == {"S"} else 0
        time.sleep(0.05)


RATES = "copy 1000000000\nhash 2000000000\nstatistics 2000000000\nwrite 1000000000\ndisk 1000000000\ncores 2\n"
# Steps that keep all they compute, 4 MiB a step, and last as long whatever else runs here.
STEADY = """
import time, torch
torch.manual_seed(0)
torch.set_num_threads(1)
layers = [torch.nn.Linear(256, 256) for _ in range(8)]
model = torch.nn.Sequential(*layers)
x = torch.randn(512, 256)
with torch.no_grad():
    for step in range(24):
        model(x)
        time.sleep(0.1)
"""


def slowdown(text: str) -> tuple[float, float]:
    found = re.search(
        r"^  slowdown   \+([0-9.]+) % to \+([0-9.]+) % of a captured step \(([0-9.]+) (us|ms|s) without\)", text, re.M
    )
    assert found, text
    return float(found[1]) / 100, float(found[2]) / 100


def test_the_slowdown_counts_the_writer_and_is_the_same_from_a_run_of_the_capture(tmp_path, app, python):
    """What the calling thread's time does not tell: hashes and files. The run that --from looks at has all of that in its
    steps. At one set of rates: 4.2 ms of copies, 2.1 ms of hashes, 4.2 ms of files."""
    (tmp_path / "rates").write_text(RATES)
    path = app(STEADY)
    command = [TDUMP_RUN, "--dump", "--steps", "0-15"]
    done = execute([*command, "-o", "run", "--", python, path], tmp_path)
    told = execute([*command, "--estimate", "--rates", "rates", "--", python, path], tmp_path)
    again = execute([*command, "--estimate", "--rates", "rates", "--from", "run"], tmp_path)
    assert done.returncode == told.returncode == again.returncode == 0, done.stderr + told.stderr + again.stderr
    plain, from_run = slowdown(told.stdout), slowdown(again.stdout)
    for low, high in (plain, from_run):
        assert high / low == pytest.approx(2.5, rel=0.2), (told.stdout, again.stdout)
    assert plain == pytest.approx(from_run, rel=0.5), (told.stdout, again.stdout)
    for text in (told.stdout, again.stdout):
        assert "counted: on the job's threads copies at 1.0 GB/s and" in text and "not what else runs here" in text
        assert re.search(r"^  disk       takes 1.0 GB/s; the steps, .* give it [0-9]+ MB/s$", text, re.M), text


def test_a_file_of_rates_that_is_none_stops_the_job_before_it_starts(tmp_path):
    (tmp_path / "rates").write_text("steps: 0-3\n")
    job = [sys.executable, "-c", "print('ran')"]
    told = execute([TDUMP_RUN, "--dump", "--estimate", "--rates", "rates", "--", *job], tmp_path)
    assert (told.returncode, told.stdout) == (125, ""), told.stderr
    assert "rates:1: steps: 0-3: expected a line that --rates wrote" in told.stderr, told.stderr
    told = execute([TDUMP_RUN, "--dump", "--rates", "rates", "--", *job], tmp_path)
    assert (told.returncode, told.stdout) == (125, "") and "--rates FILE: expected --estimate" in told.stderr


# Steps of less than a millisecond: 13 records, 200 KiB.
SHORT = """
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(12)])
with torch.no_grad():
    for step in range(24):
        model(torch.ones(64, 64))
"""


def test_steps_that_are_too_short_for_a_share_are_told_in_time(tmp_path, app, python):
    """At rates that leave next to nothing of them; and the disk, which takes 1 MB/s here, is waited for by none of ten
    such steps."""
    (tmp_path / "rates").write_text("copy 100000000\nhash 100000000\nwrite 100000000\ndisk 1000000\ncores 2\n")
    command = [TDUMP_RUN, "--dump", "--estimate", "--rates", "rates", "--", python, app(SHORT)]
    told = execute(command, tmp_path)
    assert told.returncode == 0, told.stderr
    assert re.search(
        r"^  slowdown   \+2\.[0-9] ms to \+6\.[0-9] ms a captured step, too short to tell its share "
        r"\(of the [0-9.]+ [um]s that one took here most was tdump's\): .* \(2 cores here\), .* waits for it$",
        told.stdout,
        re.M,
    ), told.stdout
    assert re.search(
        r"^  disk       takes 1 MB/s; .*: what it has not taken yet has room in the arena", told.stdout, re.M
    )


def test_the_slowdown_is_about_that_of_the_run(tmp_path):
    """Every operator in full. Estimated are the copies, at one rate for all of them, and 3 us a record. A tensor that was
    just computed is copied up to 2.5 times as fast, one into pages that are used for the first time at less than half of
    it (docs/performance.md, "What --estimate says"): hence the factor 3; 0.02, because two equal processes differ by 2 % of a
    step. What is measured is the CPU time of the thread that pays, which other load does not change much, while no writer
    works: a step begins when the one before it is on the disk, however slow that is. The estimate takes a step and the
    copies from one clock, whose load may change between them: of three estimates one has to be near."""
    (tmp_path / "c.yaml").write_text(ATEN.replace("0-3", "all"))
    job = [sys.executable, ENCODER, "--warm-up", "3"]
    estimates = []
    for _ in range(3):
        told = execute([TDUMP_RUN, "-c", "c.yaml", "--estimate", "--", *job], tmp_path)
        assert told.returncode == 0, told.stderr
        estimates.append(float(re.search(r"^  slowdown   \+([0-9.]+) %", told.stdout, re.M)[1]) / 100)
    whole = ["--steps", "2-7", "--set", "output.limit=3GiB", "-o", "run"]  # 248 MiB a step
    sides = [Turns([TDUMP_RUN, "-c", "c.yaml", *whole, "--", *job], tmp_path), Turns(job, tmp_path)]
    pairs = []
    for _ in range(5):
        wait_until_written(tmp_path / "run")
        dumped = sides[0].step()
        wait_until_written(tmp_path / "run")
        pairs.append((dumped, sides[1].step()))
    for side in sides:
        side.end()
    coverage = execute([BUILD / "bin" / "tdump-view", "run"], tmp_path).stdout
    shutil.rmtree(tmp_path / "run")
    assert "2-7 written" in coverage and "not kept" not in coverage, coverage
    dumped, plain = map(median, zip(*pairs, strict=True))
    measured = dumped / plain - 1
    near = [measured / 3 - 0.02 <= estimated <= 3 * measured + 0.02 for estimated in estimates]
    assert any(near), f"{measured=} {estimates=}"
