"""What goes wrong: a mistake stops the job before it starts; whatever fails later never changes its output or status."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from conftest import TDUMP_RUN, Run, clean_environment, execute, latest, mpirun, no_run

# Two steps of a small model; prints what it computed.
JOB = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
with torch.no_grad():
    for step in range(2):
        out = model(torch.full((16, 64), float(step)))
        print(step, float(out.double().sum()), flush=True)
"""
# Behind it: no rank ends before all have begun. The first one on a node tells for all as long as it lives.
MEET = """
import os, pathlib, time
meeting = pathlib.Path("meeting")
(meeting / os.environ["OMPI_COMM_WORLD_RANK"]).touch()
latest = time.monotonic() + 60
while len(list(meeting.iterdir())) < int(os.environ["OMPI_COMM_WORLD_SIZE"]) and time.monotonic() < latest:
    time.sleep(0.02)
"""
RANKS = 4


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """The program and what it prints without tdump."""
    cwd = tmp_path_factory.mktemp("failures")
    path = cwd / "job.py"
    path.write_text(JOB)
    bare = execute([sys.executable, path], cwd)
    assert bare.returncode == 0 and len(bare.stdout.splitlines()) == 2
    return str(path), bare.stdout


def told(stderr: str, word: str) -> list[str]:
    return [line for line in stderr.splitlines() if word in line]


# ---- before the start (more of it in test_tdump_run.py) ----


def test_a_mistake_of_one_rank_only_is_told(tmp_path):
    (tmp_path / "c.yaml").write_text("steps: 0-1\n")
    script = 'test $OMPI_COMM_WORLD_RANK = 2 && export TDUMP_STEPS=x; exec "$@"'
    failed = mpirun(RANKS, ["sh", "-c", script, "-", TDUMP_RUN, "-c", "c.yaml", "--", "sleep", "20"], tmp_path)
    assert failed.returncode == 125
    assert len(told(failed.stderr, "TDUMP_STEPS: steps.select: 'x'")) == 1, failed.stderr


# ---- while the job runs ----

PREDICATES = """
def throws(name, module):
    raise ValueError("no such luck")

def not_a_function_of_two(name):
    return True
"""


@pytest.mark.parametrize(
    "function, reason",
    [("throws", "ValueError: no such luck"), ("missing", "missing"), ("not_a_function_of_two", "argument")],
)
def test_a_predicate_that_fails_matches_nothing_and_is_told(tmp_path, job, function, reason):
    path, output = job
    (tmp_path / "predicates.py").write_text(PREDICATES)
    (tmp_path / "c.yaml").write_text(f"capture:\n  - {{where: 'predicates.py:{function}'}}\n  - {{name: '^0$'}}\n")
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, path], tmp_path)
    assert (done.returncode, done.stdout) == (0, output), done.stderr

    import tdump

    assert list(tdump.load_pass(latest(tmp_path).passes(0)[0])) == ["0"]
    view = execute([Path(TDUMP_RUN).with_name("tdump-view"), "latest", "--coverage"], tmp_path)
    assert reason in view.stdout + view.stderr, view.stdout
    assert f"predicates.py:{function}" in view.stdout


# A daemon thread is still being asked for a name when the job ends.
ENDS_MEANWHILE = """
import pathlib, threading, time, torch
threading.Thread(target=lambda: torch.nn.Linear(4, 4)(torch.ones(1, 4)), daemon=True).start()
while not pathlib.Path("asked").exists():
    time.sleep(0.01)
print("ends", flush=True)
"""
BUSY = """
import pathlib, time

def busy(name, module):
    pathlib.Path("asked").touch()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pass
    return True
"""


def test_a_thread_that_python_ends_within_a_predicate_does_not_abort_the_job(tmp_path, app, python):
    app(BUSY, "predicates.py")
    (tmp_path / "c.yaml").write_text("capture: [{where: 'predicates.py:busy'}]\n")
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", python, app(ENDS_MEANWHILE)], tmp_path)
    assert (done.returncode, done.stdout) == (0, "ends\n"), done.stderr


def read_only(tmp_path: Path) -> str:
    """A directory that nobody, root included, can write to."""
    place = tmp_path / "closed"
    place.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", str(place)], capture_output=True
    ).returncode:
        pytest.skip("mounting a file system is not possible here")
    return str(place)


@pytest.fixture
def unmount():
    places: list[str] = []
    yield places.append
    for place in places:
        subprocess.run(["umount", "-l", place], check=False)


@pytest.mark.parametrize("kind", ["a file is in the way", "read-only file system"])
def test_a_directory_that_cannot_be_written(tmp_path, job, unmount, kind):
    output = job[1]
    path = tmp_path / "job.py"
    path.write_text(JOB + MEET)
    (tmp_path / "meeting").mkdir()
    if kind == "read-only file system":
        place = read_only(tmp_path)
        unmount(place)
    else:
        place = str(tmp_path / "file")
        Path(place).write_text("in the way")
    done = mpirun(RANKS, [TDUMP_RUN, "--dump", "-o", f"{place}/run", "--", sys.executable, path], tmp_path)
    assert done.returncode == 0, done.stderr
    assert Counter(done.stdout) == Counter(output * RANKS)  # mpirun mixes the ranks' lines
    lines = told(done.stderr, "tdump: off")
    assert len(lines) == 1 and place in lines[0], done.stderr


# ---- I03: paths beyond the system's limit, permission removed while the job runs ----

PATH_MAX = 4096  # of Linux, the zero byte included


def deep_directory(place: Path, length: int) -> Path:
    """A directory below `place` whose path has `length` characters."""
    path = str(place)
    while len(path) + 202 < length:
        path += "/" + "d" * 200
    deep = Path(path + "/" + "e" * (length - len(path) - 1))
    deep.mkdir(parents=True)
    return deep


@pytest.mark.parametrize("room", [5, 33], ids=["for the run only", "for all but its passes"])
def test_a_path_that_is_too_long(tmp_path, job, room):
    path, output = job
    deep = deep_directory(tmp_path, PATH_MAX - room)
    done = execute([TDUMP_RUN, "--dump", "-o", "r", "--", sys.executable, path], deep)
    assert (done.returncode, done.stdout) == (0, output), done.stderr
    lines = [line for line in told(done.stderr, "ENAMETOOLONG") if line.startswith("tdump: ")]
    off = [line for line in lines if "off on rank 0, nothing is recorded" in line]
    ended = [line for line in lines if "pass 0 ends there, the job goes on" in line]
    if room == 5:
        assert (len(off), len(lines)) == (1, 1), done.stderr
        return
    assert (len(off), len(ended)) == (0, 1), done.stderr
    assert len(lines) == 2, done.stderr  # and that the run could not be merged
    view = execute([Path(TDUMP_RUN).with_name("tdump-view"), "r"], deep)
    assert "INCOMPLETE" in view.stdout and "0 of 1 wrote" in view.stdout, view.stdout + view.stderr


# With an argument: once two steps are on disk, the third loses its place.
LOSES_ITS_PLACE = """
import os, shutil, sys, time
from pathlib import Path

def lose(how):
    run = Path("outputs/latest").resolve()
    while not list(run.glob("rank*/pass00001.tdp")):
        time.sleep(0.02)
    if how == "removed":
        shutil.rmtree(run)
    else:
        for directory in [*run.glob("rank*"), run]:
            directory.chmod(0)
""" + JOB.replace("range(2)", "range(6)").replace(
    "        out =", "        if step == 3 and sys.argv[1:]: lose(sys.argv[1])\n        out ="
)


def bound_by_permissions() -> list[str]:
    """What starts a program that file permissions bind, also when the tests run as root."""
    if os.geteuid() != 0:
        return []
    without = "-dac_override,-dac_read_search"
    bound = ["setpriv", f"--bounding-set={without}", f"--inh-caps={without}"]
    if shutil.which("setpriv") is None or subprocess.run([*bound, "true"], capture_output=True).returncode:
        pytest.skip("root cannot give up its capabilities here")
    return bound


@pytest.mark.parametrize("how, error", [("closed", "EACCES"), ("removed", "ENOENT")])
def test_the_directory_is_lost_while_the_job_runs(tmp_path, app, python, how, error):
    path = app(LOSES_ITS_PLACE)
    bare = execute([python, path], tmp_path)
    start = bound_by_permissions() if how == "closed" else []
    done = execute([*start, TDUMP_RUN, "--dump", "--", python, path, how], tmp_path)
    run = latest(tmp_path)
    if how == "closed":
        run.path.chmod(0o700)
        for [directory] in run.ranks().values():
            directory.chmod(0o700)
    assert (done.returncode, done.stdout) == (0, bare.stdout), done.stderr
    assert bare.stdout.count("\n") == 6
    written, verdict = [line for line in told(done.stderr, error) if line.startswith("tdump: ")]
    assert re.search(r"cannot .*/pass0000[23]\.tdp\S* .*pass [23] ends there, the job goes on", written), done.stderr
    gone = "no verdict, the run is not there any more: "
    assert verdict.startswith(f"tdump: {gone if how == 'removed' else 'the run is not merged: '}"), done.stderr
    assert len(told(done.stderr, "3 passes in a row could not be written")) == 1, done.stderr
    if how == "removed":
        return
    view = execute([Path(TDUMP_RUN).with_name("tdump-view"), "latest"], tmp_path)
    assert "INCOMPLETE" in view.stdout and error in view.stdout, view.stdout + view.stderr

    import tdump

    assert [set(tdump.load_pass(file)) for file in run.passes(0)[:2]] == [{"0", "1", "2"}] * 2


# Steps of 1.5 MiB each. With a run and a file the job itself fills the disk with that, when the first three are written.
LARGE = """
import glob, os, sys, time, torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512))

def wait_for(condition):
    latest = time.monotonic() + 60
    while not condition() and time.monotonic() < latest:
        time.sleep(0.01)

def third_step_is_written():
    import tdump
    try:
        return [set(tdump.load_pass(part)) for part in glob.glob(sys.argv[1] + "/rank0_*/pass00002.tdp.part")] == [{"0", "1", "2"}]
    except Exception:
        return False

def writer_gave_up():
    for manifest in glob.glob(sys.argv[1] + "/rank0_*/manifest.tdm"):
        with open(manifest, "rb") as file:
            return b"passes in a row could not be written" in file.read()

def fill(path):
    wait_for(third_step_is_written)
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(file, bytes(4096))
    except OSError:
        pass

with torch.no_grad():
    for step in range(8):
        if step == 3 and sys.argv[1:]:
            fill(sys.argv[2])
        if step == 7 and sys.argv[1:]:
            wait_for(writer_gave_up)  # at the end of step 5, the third that it cannot write
        out = model(torch.full((256, 512), float(step)))
        print(step, float(out.double().sum()), flush=True)
"""


def test_a_full_disk(tmp_path, app, python, unmount):
    path = app(LARGE)
    bare = execute([python, path], tmp_path)
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a file system is not possible here")
    unmount(str(place))
    options = ["--dump", "-o", str(place / "run"), "--set", "output.limit=1GiB"]
    done = execute([TDUMP_RUN, *options, "--", python, path, str(place / "run"), str(place / "filler")], tmp_path)
    assert (done.returncode, done.stdout) == (0, bare.stdout), done.stderr
    lines = [line for line in told(done.stderr, "No space left on device") if line.startswith("tdump: ")]
    assert sum("pass 3 ends there, the job goes on" in line for line in lines) == 1, done.stderr
    assert len(lines) == 2, done.stderr  # and that the run could not be merged
    assert len(told(done.stderr, "tdump: INCOMPLETE")) == 1, done.stderr
    assert "  steps      0-2 written (3 of 8 seen); 3-7 not whole; nothing of 7\n" in done.stderr, done.stderr
    assert "0 of 1 wrote all 8 steps; rank 0 could not write all in steps 3-6, nothing of 7\n" in done.stderr
    left_out = (
        "3 passes in a row could not be written: steps from 7 on are not written. At least 3 operators are missing"
    )
    assert len(told(done.stderr, left_out)) == 1, done.stderr
    # What was written before is readable, and the coverage says what is missing.
    view = execute([Path(TDUMP_RUN).with_name("tdump-view"), str(place / "run")], tmp_path)
    assert "INCOMPLETE" in view.stdout, view.stdout + view.stderr

    import tdump

    written = Run(place / "run").passes(0)
    assert len(written) >= 2
    for path in written:
        assert set(tdump.load_pass(path)) == {"0", "1", "2"}


ENDLESS = LARGE.replace("range(8)", "__import__('itertools').count()").replace("print", "if step % 16 == 15: print")


def size_of(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink())


def wait_for(condition, seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("limit", ["steps", "bytes"])
def test_an_endless_loop_stops_being_written(tmp_path, app, python, limit):
    options = ["--dump"] if limit == "steps" else ["--dump", "--steps", "all", "--set", "output.limit=8MiB"]
    with open(tmp_path / "out", "w+") as out, open(tmp_path / "err", "w+") as err:
        process = subprocess.Popen(
            [TDUMP_RUN, *options, "--", python, app(ENDLESS)],
            cwd=tmp_path,
            env=clean_environment(),
            stdout=out,
            stderr=err,
        )
        try:
            # 16 steps of 1.5 MiB are beyond both limits.
            assert wait_for(lambda: (tmp_path / "out").read_text().count("\n") >= 4)
            time.sleep(0.5)
            size = size_of(tmp_path / "outputs")
            printed = (tmp_path / "out").read_text().count("\n")
            assert wait_for(lambda: (tmp_path / "out").read_text().count("\n") >= printed + 4)
            assert process.poll() is None
            # Far less than a step: the slot file is still on its way to its fixed size.
            assert size_of(tmp_path / "outputs") <= size + (128 << 10)
        finally:
            process.kill()
            process.wait()
        err.seek(0)
        said = err.read()
    run = latest(tmp_path)
    if limit == "steps":
        assert len(run.passes(0)) == 10
    else:
        assert 0 < size_of(run.path) <= 8 << 20
        assert len(told(said, "limit")) == 1, said


# ---- a rank that dies ----

# Each rank: two finished steps, then a step in which rank 2 stops after its first layer, long enough for the writer, and
# is killed. The others go on.
DIES = """
import os, signal, sys, time, torch
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
torch.manual_seed(rank)

def meet():
    open(f"rank{rank}_is_here", "w").close()
    end = time.monotonic() + 120
    while not all(os.path.exists(f"rank{n}_is_here") for n in range(4)) and time.monotonic() < end:
        time.sleep(0.01)

class Waits(torch.nn.Module):
    def forward(self, x):
        if step == 2:
            meet()
        if step == 2 and rank == 2:
            time.sleep(1.5)
            os.kill(os.getpid(), signal.SIGKILL)
        return x + 1

model = torch.nn.Sequential(torch.nn.Linear(8, 8), Waits(), torch.nn.ReLU())
with torch.no_grad():
    for step in range(3):
        torch.manual_seed(100 * rank + step)
        model(torch.rand(2, 8))
time.sleep(120)  # until mpirun ends them
"""


def first_layer(rank: int, step: int):
    """The output of the first layer, computed again."""
    import torch

    torch.manual_seed(rank)
    layer = torch.nn.Linear(8, 8)
    torch.manual_seed(100 * rank + step)
    with torch.no_grad():
        return layer(torch.rand(2, 8))


def test_kill_9_of_a_rank_inside_a_pass(tmp_path, app, python):
    torch = pytest.importorskip("torch")
    import tdump

    done = mpirun(RANKS, [TDUMP_RUN, "--dump", "--", python, app(DIES)], tmp_path)
    assert done.returncode == 128 + signal.SIGKILL, done.stderr
    run = latest(tmp_path)
    assert sorted(run.ranks()) == list(range(RANKS))
    for rank in range(RANKS):
        finished = run.passes(rank)
        assert [path.name for path in finished[:2]] == ["pass00000.tdp", "pass00001.tdp"], rank
        for step, path in enumerate(finished[:2]):
            seen = tdump.load_pass(path)
            assert set(seen) == {"0", "1", "2"}
            assert torch.equal(seen["0"], first_layer(rank, step)), (rank, step)

    # The pass in which rank 2 died: what is older than half a second stands under its name.
    [torn] = run.ranks()[2][0].glob("*.part")
    with pytest.warns(UserWarning, match="unfinished pass"):
        part = tdump.load_pass(torn)
    assert not part.complete
    assert torch.equal(part["0"], first_layer(2, 2))

    # mpirun may return before the last of the ranks that it ends is gone.
    pids = [int(directories[0].name.split("pid")[1]) for directories in run.ranks().values()]
    assert wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    tools = Path(TDUMP_RUN).parent
    merged = execute([tools / "tdump-merge", "latest"], tmp_path)
    assert merged.returncode == 0, merged.stderr
    assert "INCOMPLETE" in merged.stdout and re.search(r"ranks? .*killed", merged.stdout), merged.stdout
    # The step that no rank ended is not said to be written, nor what was called in it to be complete.
    assert "  steps      0-1 written (2 of 3 seen); 2 whole on no rank; " in merged.stdout, merged.stdout
    assert "3 seen, 0 complete on every rank, 3 more in steps 0-1" in merged.stdout, merged.stdout
    verified = execute([tools / "tdump-view", "latest", "--verify"], tmp_path)
    assert verified.returncode == 0, verified.stdout
    head, *cut = verified.stdout.splitlines()
    assert "; 4 are unfinished (killed, or still running), what they had written until then is sound" in head
    assert [re.search("^unfinished  (step 2, rank [0-9]+): ", line)[1] for line in cut] == [
        f"step 2, rank {rank}" for rank in range(RANKS)
    ]
    same = execute([tools / "tdump-diff", "latest", "latest"], tmp_path)
    assert same.returncode == 0 and same.stdout.count("SAME") >= 1, same.stdout + same.stderr


# Rank 1 fails in the backward of its last step, when rank 0 has gone.
FAILS = """
import os, pathlib, time, torch
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
pathlib.Path(f"pid{rank}").write_text(str(os.getpid()))
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def fails(gradient):
    latest = time.monotonic() + 60
    while os.path.exists("/proc/" + pathlib.Path("pid0").read_text()) and time.monotonic() < latest:
        time.sleep(0.05)
    raise RuntimeError("no gradient")

for step in range(3):
    loss = model(torch.ones(2, 4)).sum()
    if rank == 1 and step == 2:
        loss.register_hook(fails)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_an_exception_in_backward_leaves_a_step_that_is_not_whole(tmp_path, app, python):
    done = mpirun(2, [TDUMP_RUN, "--dump", "--", python, app(FAILS)], tmp_path)
    assert done.returncode == 1 and "no gradient" in done.stderr, done.stderr
    view = execute([Path(TDUMP_RUN).with_name("tdump-view"), "latest"], tmp_path)
    assert "tdump: INCOMPLETE  latest" in view.stdout, view.stdout
    for text in (view.stdout, done.stderr):
        assert "  steps      0-1 written (2 of 3 seen); 2 whole on 1 of 2 ranks; " in text, text
        assert "rank 1 ended in step 2, which may not be whole (exit with status 1)" in text, text
        assert "3 seen, 0 complete on every rank, 3 more in steps 0-1" in text, text


CATCHES = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def fails(gradient):
    raise RuntimeError("no gradient")

def watch(module, args, out):
    if step == 2:
        out.register_hook(fails)

model[0].register_forward_hook(watch)
try:
    for step in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
except RuntimeError as error:
    print("caught:", error)
"""


def test_an_exception_in_backward_that_the_job_catches_leaves_a_step_that_is_not_whole(tmp_path, app, python):
    (tmp_path / "c.yaml").write_text("capture: [{leaf: true, role: [output, grad_output], level: full}]\n")
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", python, app(CATCHES)], tmp_path)
    assert done.returncode == 0 and "caught: no gradient" in done.stdout, done.stderr
    assert "tdump: INCOMPLETE  " in done.stderr
    assert "  steps      0-1 written (2 of 3 seen); 2 not whole\n" in done.stderr, done.stderr
    assert "rank 0 ended in step 2, which may not be whole (exit with status 0)" in done.stderr, done.stderr


# Twice: in step 1 behind the first gradients, in step 2 before any.
GOES_ON = """
import sys, torch
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def fails(gradient):
    raise RuntimeError("no gradient")

def watch(module, args, out):
    if step == 1 and not again:
        out.register_hook(fails)

model[0].register_forward_hook(watch)
for step in range(4):
    for again in (False, True):
        loss = model(torch.ones(2, 4)).sum()
        if step == 2 and not again:
            loss.register_hook(fails)
        try:
            loss.backward()
            break
        except RuntimeError as error:
            print("caught:", error)
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_backward_that_an_exception_left_and_the_job_went_on_from_is_told(tmp_path, app, python):
    (tmp_path / "c.yaml").write_text("capture: [{leaf: true, role: [output, grad_output], level: full}]\n")
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", python, app(GOES_ON)], tmp_path)
    assert (done.returncode, done.stdout) == (0, "caught: no gradient\n" * 2), done.stderr
    view = execute([Path(TDUMP_RUN).with_name("tdump-view"), "latest", "--coverage"], tmp_path)
    for text in (done.stderr, view.stdout):
        assert "  steps      0-3 written (4 of 4 seen)\n" in text, text
        told = re.findall(r"step (\d): an exception left a backward and the job went on; what it had not done", text)
        assert told == ["1", "2"], text


# In forward, in step 1: whatever is behind it in that step is missing.
THROWS = """
import sys, torch

class Throws(torch.nn.Module):
    def forward(self, x):
        if step == 1:
            raise RuntimeError("not today")
        return x

model = torch.nn.Sequential(torch.nn.Linear(4, 4), Throws(), torch.nn.ReLU())
for step in range(int(sys.argv[1])):
    try:
        model(torch.ones(2, 4))
    except RuntimeError as error:
        print("caught:", error)
"""


@pytest.mark.parametrize("steps", [3, 2])
def test_what_an_exception_in_forward_left_that_the_job_catches_is_told(tmp_path, app, python, steps):
    done = execute([TDUMP_RUN, "--dump", "--", python, app(THROWS), str(steps)], tmp_path)
    assert (done.returncode, done.stdout) == (0, "caught: not today\n"), done.stderr
    view = execute([Path(TDUMP_RUN).with_name("tdump-view"), "latest", "--coverage"], tmp_path)
    # Of the last step nothing tells whether the job had more to do in it.
    written, went_on = ("0 written (1 of 2 seen); 1 not whole", ""), " and the job went on"
    if steps == 3:
        written = ("0-2 written (3 of 3 seen)", went_on)
    for text in (done.stderr, view.stdout):
        assert f"  steps      {written[0]}\n" in text, text
        assert f"step 1: an exception left 2 module calls{written[1]}; what they had not done is missing\n" in text
        assert ("rank 0 ended in step 1, which may not be whole (exit with status 0)" in text) == (steps == 2), text


# Its steps run each on a thread of their own, or by turns on two that live on. Of the call that the first one leaves torch
# calls no hook: what tells that it is over is the end of its thread, or the next call on it, which comes when another
# thread has made one.
LEAVES = """
import sys, threading, torch
from concurrent.futures import ThreadPoolExecutor

class Leaves(torch.nn.Module):
    def forward(self, x):
        if step == 0:
            raise SystemExit
        return x

def run():
    try:
        model(torch.ones(2, 4))
    except SystemExit:
        print("left", flush=True)
        raise

def run_in_pool():
    try:
        pools[step % 2].submit(run).result()
    except SystemExit:
        pass

def run_in_thread():
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

model = torch.nn.Sequential(torch.nn.Linear(4, 4), Leaves())
pools = [ThreadPoolExecutor(1), ThreadPoolExecutor(1)]
for step in range(4):
    run_in_thread() if sys.argv[1] == "thread" else run_in_pool()
"""


@pytest.mark.parametrize("where, left_by", [("thread", "the end of a thread"), ("pool", "an exception")])
def test_steps_go_on_when_an_exception_left_a_call_on_another_thread(tmp_path, app, python, where, left_by):
    done = execute([TDUMP_RUN, "--dump", "--", python, app(LEAVES), where], tmp_path)
    assert (done.returncode, done.stdout) == (0, "left\n"), done.stderr
    assert "  steps      0-3 written (4 of 4 seen)\n" in done.stderr, done.stderr
    left = f"step 0: {left_by} left 2 module calls and the job went on; what they had not done is missing\n"
    assert left in done.stderr, done.stderr


# Recomputed forwards end by an exception of torch's own: nothing of the job's is missing.
RECOMPUTES = """
import torch
from torch.utils.checkpoint import checkpoint

block = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = block
        self.head = torch.nn.Linear(4, 1)
    def forward(self, x):
        return self.head(checkpoint(self.block, x, use_reentrant=False)).sum()

model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 4, requires_grad=True)).backward()
    optimizer.step()
"""


def test_a_recomputed_forward_leaves_nothing(tmp_path, app, python):
    done = execute([TDUMP_RUN, "--dump", "--", python, app(RECOMPUTES)], tmp_path)
    assert done.returncode == 0 and "tdump: COMPLETE  " in done.stderr, done.stderr
    assert "an exception left" not in done.stderr, done.stderr


# By _exit, when the first pass is in the manifest and the second one has begun.
ENDS = """
import glob, os, time

def written(rank):
    with open(rank + "/manifest.tdm", "rb") as file:
        manifest = file.read().replace(b"pass00000.tdp.part", b"")
    return b"pass00000.tdp" in manifest and os.path.exists(rank + "/pass00001.tdp.part")

latest = time.monotonic() + 60
while not any(written(rank) for rank in glob.glob("outputs/tdump_*/rank0_*")) and time.monotonic() < latest:
    time.sleep(0.01)
os._exit(0)
"""


def test_a_process_that_leaves_by_exit_is_not_said_to_be_killed_for_sure(tmp_path, app, python):
    path = app(JOB + ENDS)
    done = execute([TDUMP_RUN, "--dump", "--", python, path], tmp_path)
    assert done.returncode == 0, done.stderr
    view = execute([Path(TDUMP_RUN).with_name("tdump-view"), "latest"], tmp_path)
    assert "  steps      0 written (1 of 2 seen); 1 not whole\n" in view.stdout, view.stdout
    assert re.search(r"rank 0 killed or left by _exit on \S+ in step 1[;\n]", view.stdout), view.stdout


NAMED = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        self.head = torch.nn.Linear(4, 2)
    def forward(self, x):
        return self.head(self.encoder(x))

Model()(torch.ones(2, 4))
"""


def test_a_rule_that_matched_nothing_is_told_what_comes_near(tmp_path, app, python):
    rules = "[{leaf: true, name: 'encoder$'}, {class: ['\\bLinaer$']}, {name: head, level: stats}]"
    (tmp_path / "c.yaml").write_text(f"capture: {rules}\n")
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", python, app(NAMED)], tmp_path)
    assert done.returncode == 0, done.stderr
    is_no_leaf = "rule 1: encoder is no leaf: its children are encoder.{0-1}; without `leaf: true` the rule takes it\n"
    assert is_no_leaf in done.stderr, done.stderr
    near = r"rule 2: no module is of class '\bLinaer$'. Near: torch.nn.modules.linear.Linear" + "\n"
    assert near in done.stderr, done.stderr
    assert "rule 3:" not in done.stderr, done.stderr


def test_a_run_that_was_to_write_nothing_is_complete(tmp_path, job):
    done = execute([TDUMP_RUN, "--dump", "--steps", "none", "--", sys.executable, job[0]], tmp_path)
    assert done.returncode == 0 and "tdump: COMPLETE  " in done.stderr, done.stderr
    merged = execute([Path(TDUMP_RUN).with_name("tdump-merge"), "--strict", "latest"], tmp_path)
    assert merged.returncode == 0 and "no step is selected (steps: none)" in merged.stdout, merged.stdout


def test_a_run_that_wrote_nothing_is_not_complete(tmp_path, job):
    done = execute([TDUMP_RUN, "--dump", "--ranks", "3", "--", sys.executable, job[0]], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tdump: INCOMPLETE  " in done.stderr, done.stderr
    assert "  ranks      none of 1 rank is selected (ranks), so nothing was written" in done.stderr, done.stderr
    view = execute([Path(TDUMP_RUN).with_name("tdump-view"), "latest", "--coverage"], tmp_path)
    assert "tdump: INCOMPLETE  latest" in view.stdout and "none of 1 rank is selected" in view.stdout, view.stdout


def test_nothing_is_left_when_the_job_never_ran(tmp_path):
    failed = execute([TDUMP_RUN, "--dump", "--steps", "x", "--", "true"], tmp_path)
    assert failed.returncode == 125 and no_run(tmp_path)
    assert os.listdir(tmp_path) == []
