"""Packed files, the ring and --estimate with a real job: the same values whatever the layout."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path

import pytest
import tdump
from conftest import BUILD, TDUMP_RUN, Run, execute, last_verdict, mpirun

STEPS = 6
JOB = """
    import torch
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.LayerNorm(512), torch.nn.Linear(512, 256)).eval()
    with torch.no_grad():
        for _ in range(6):
            net(torch.randn(64, 256))
"""
CONFIG = """
    steps: 0-5
    capture:
      - {role: [param], level: full}
      - {leaf: true, role: [input, output], level: full}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("layouts")
    (place / "app.py").write_text(textwrap.dedent(JOB))
    (place / "c.yaml").write_text(textwrap.dedent(CONFIG))
    return place


def capture(place: Path, python: str, name: str, *options: str) -> Run:
    done = execute([TDUMP_RUN, "-c", "c.yaml", "-o", name, *options, "--", python, "app.py"], place)
    assert done.returncode == 0, done.stderr
    assert last_verdict(done.stderr) == "COMPLETE", done.stderr
    return Run(place / name)


def files(run: Run) -> list[str]:
    (directory,) = run.ranks()[0]
    return sorted(path.name for path in directory.iterdir() if path.suffix != ".tdm")


def pass_bytes(run: Run) -> int:
    (directory,) = run.ranks()[0]
    return sum(path.stat().st_size for path in directory.glob("*.tdp"))


def values(run: Run, step: int) -> dict[str, bytes]:
    loaded = tdump.open(run.path)[step, 0]
    return {name: loaded[name].numpy().tobytes() for name in loaded}


def test_the_same_values_in_every_layout(place, python):
    plain = capture(place, python, "plain")
    packed = capture(place, python, "packed", "--set", "output.layout=packed", "--set", "output.durability=pass")
    assert files(plain) == [f"pass{n:05d}.tdp" for n in range(STEPS)]
    assert files(packed) == ["pack00000.tdp"]
    for step in range(STEPS):
        assert values(packed, step) == values(plain, step)
        assert len(values(plain, step)) >= 3
    # A pass of a packed file by its name.
    (directory,) = packed.ranks()[0]
    loaded = tdump.load_pass(f"{directory}/pack00000.tdp#3")
    assert {n: loaded[n].numpy().tobytes() for n in loaded} == values(plain, 3)
    for tool, *arguments in (
        ("tdump-view", packed.path, "--verify"),
        ("tdump-diff", plain.path, packed.path, "--require", "bitwise"),
        ("tdump-merge", packed.path),
        ("tdump-diff", packed.path, packed.path),
    ):
        done = execute([BUILD / "bin" / tool, *arguments], place)
        assert done.returncode == 0, f"{tool}: {done.stdout}{done.stderr}"


def test_the_ring_keeps_the_first_step_and_the_last(place, python):
    # A step takes about 0.5 MB; weights (1 MB) come with the first.
    run = capture(place, python, "ring", "--set", "output.at_limit=ring", "--set", "output.limit=2500KB")
    kept = tdump.open(run.path).steps
    assert kept[-1] == STEPS - 1 and len(kept) < STEPS
    assert pass_bytes(run) <= 2_500_000
    shown = execute([BUILD / "bin" / "tdump-view", run.path], place)
    assert re.search(r"0-5 written .*; \S+ overwritten by the ring", shown.stdout), shown.stdout
    assert execute([BUILD / "bin" / "tdump-view", run.path, "--verify"], place).returncode == 0
    # What is left of each operator's records are those that are there.
    names = json.loads(execute([BUILD / "bin" / "tdump-view", run.path, "--names", "--json"], place).stdout)
    (rank,) = json.loads(execute([BUILD / "bin" / "tdump-view", run.path, "--json"], place).stdout)["ranks"]
    assert all(op["overwritten"] > 0 for op in names["operators"] if op["records"] > 1)
    assert sum(op["records"] - op["overwritten"] for op in names["operators"]) == rank["records"]
    gone = min(set(range(STEPS)) - set(kept))
    shown = execute([BUILD / "bin" / "tdump-view", f"{run.path}:{gone}"], place)
    assert shown.returncode == 2
    assert f"step {gone} was overwritten (output.at_limit: ring)" in shown.stderr


@pytest.mark.parametrize("level", ["full", "[hash, stats]"])
def test_the_estimate_is_what_the_run_takes(place, python, level):
    config = place / "estimate.yaml"
    config.write_text(f"steps: 0-5\ncapture:\n  - {{leaf: true, role: [input, output], level: {level}}}\n")
    before = sorted(place.iterdir())
    command = [TDUMP_RUN, "-c", config.name]
    told = execute([*command, "--estimate", "--", python, "app.py"], place)
    assert told.returncode == 0, told.stderr
    assert sorted(place.iterdir()) == before, "nothing is left behind"
    name = "real_" + re.sub(r"\W", "", level)
    assert execute([*command, "-o", name, "--", python, "app.py"], place).returncode == 0
    from_run = execute([*command, "--estimate", "--from", name], place)
    real = pass_bytes(Run(place / name))
    for text in (told.stdout, from_run.stdout):
        estimated = int(re.search(r"\((\d+) bytes\) in 6 files", text)[1])
        assert abs(estimated - real) <= 0.02 * real + 2048, f"{text}\nreal: {real}"
        assert "slowdown   +" in text


def test_an_estimate_needs_a_step_to_estimate_from(place):
    told = execute([TDUMP_RUN, "--dump", "--estimate", "--", "true"], place)
    assert told.returncode == 2 and "nothing to estimate from" in told.stderr, told.stderr
    assert "/tmp" not in told.stderr
    failed = execute([TDUMP_RUN, "--dump", "--estimate", "--", "sh", "-c", "exit 7"], place)
    assert failed.returncode == 7 and "nothing to estimate from" in failed.stderr, failed.stderr


# ---- output.layout: node ----

TWO_RANKS = """
    import os, sys, time, torch
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    torch.manual_seed(rank)
    net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.LayerNorm(512), torch.nn.Linear(512, 256)).eval()
    with torch.no_grad():
        for step in range(6):
            net(torch.randn(64, 256))
            if sys.argv[1:] == ["dies"] and rank == 1 and step == 4:
                time.sleep(1)
                os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def two_ranks(place):
    (place / "two.py").write_text(textwrap.dedent(TWO_RANKS))

    def capture(name: str, *options: str) -> Path:
        done = mpirun(2, [TDUMP_RUN, "-c", "c.yaml", "-o", name, *options, "--", sys.executable, "two.py"], place)
        assert done.returncode == 0, done.stderr
        assert last_verdict(done.stderr) == "COMPLETE", done.stderr
        return place / name

    return capture


def values_of_ranks(run: Path) -> dict[tuple[int, int], dict[str, bytes]]:
    opened = tdump.open(run)
    found = {}
    for rank in (0, 1):
        for step in opened.steps:
            loaded = opened[step, rank]
            found[rank, step] = {name: loaded[name].numpy().tobytes() for name in loaded}
    return found


def test_a_node_has_one_file_and_all_tools_read_it(place, two_ranks):
    plain, node = two_ranks("two"), two_ranks("node", "--set", "output.layout=node")
    names = sorted(path.name for path in node.iterdir())
    (file,) = (name for name in names if name.endswith(".tdn"))
    assert names == ["clock", "config.yaml", "generations", "manifest.tdm", file]
    assert values_of_ranks(node) == values_of_ranks(plain)
    assert len(values_of_ranks(node)) == 2 * STEPS
    pid = re.search(r"rank1_pid\d+", (node / file).read_bytes().decode("latin-1"))[0]
    loaded = tdump.load_pass(f"{node}/{pid}/pack00000.tdp#3")
    assert {n: loaded[n].numpy().tobytes() for n in loaded} == values_of_ranks(plain)[1, 3]
    for tool, *arguments in (
        ("tdump-view", node),
        ("tdump-view", node, "--verify"),
        ("tdump-view", f"{node}/{pid}"),
        ("tdump-view", f"{node}:2/1/0"),
        ("tdump-diff", plain, node, "--require", "bitwise"),
        ("tdump-diff", f"{node}/rank0", f"{plain}/rank0", "--require", "bitwise"),
        ("tdump-merge", node),
        ("tdump-export", node, "--npz", "-o", "exported"),
        ("tdump-run", "--estimate", "-c", "c.yaml", "--from", node),
    ):
        done = execute([BUILD / "bin" / tool, *arguments], place)
        assert done.returncode == 0, f"{tool}: {done.stdout}{done.stderr}"
    assert sorted(path.name for path in node.iterdir()) == names, "the tools leave nothing beside it"


def test_runs_with_node_files_are_moved_and_joined(place, two_ranks):
    """Two nodes without a common file system: each has its own rank, in a file of the same name here."""
    job = (
        f"exec {TDUMP_RUN} -c c.yaml -o apart$OMPI_COMM_WORLD_RANK --set output.layout=node -- {sys.executable} two.py"
    )
    assert mpirun(2, ["sh", "-c", job], place).returncode == 0
    (place / "elsewhere").mkdir()
    (place / "apart0").rename(place / "elsewhere" / "run")
    joined = execute([BUILD / "bin" / "tdump-merge", "elsewhere/run", "apart1"], place)
    assert joined.returncode == 0, joined.stdout + joined.stderr
    assert len(list((place / "elsewhere" / "run").glob("*.tdn"))) == 2
    assert values_of_ranks(place / "elsewhere" / "run") == values_of_ranks(two_ranks("together"))


def test_a_killed_rank_leaves_its_part_of_the_node_file(place, two_ranks):
    command = [TDUMP_RUN, "-c", "c.yaml", "-o", "killed", "--set", "output.layout=node"]
    mpirun(2, [*command, "--", sys.executable, "two.py", "dies"], place)
    shown = execute([BUILD / "bin" / "tdump-view", "killed"], place)
    assert "rank 1" in shown.stdout and "INCOMPLETE" in shown.stdout, shown.stdout
    assert "SIGKILL" in shown.stdout or "killed" in shown.stdout, shown.stdout
    opened = tdump.open(place / "killed")
    for step in range(4):
        assert len(opened[step, 1]) >= 3
    assert execute([BUILD / "bin" / "tdump-view", "killed", "--verify"], place).returncode == 0


def test_the_ring_gives_room_back_in_a_node_file(place, two_ranks):
    settings = ("output.layout=node", "output.at_limit=ring", "output.limit=5MB")
    run = two_ranks("node_ring", *(word for setting in settings for word in ("--set", setting)))
    (file,) = run.glob("*.tdn")
    assert file.stat().st_blocks * 512 <= 5_000_000 + 400_000
    kept = tdump.open(run).steps
    assert kept[-1] == STEPS - 1 and len(kept) < STEPS
