"""Which names modules get, however they came to be and however they are called."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tdump
from conftest import BUILD, TDUMP_RUN, execute, latest

JOB = Path(__file__).parent / "jobs" / "names.py"
CONFIG = """
steps: all
names: {roots: {Critic: judge}}
signature: false
capture: [{level: full}]
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("names")
    (cwd / "names.yaml").write_text(CONFIG)
    bare = execute([sys.executable, JOB], cwd, {"PYTHONPATH": str(BUILD / "python")})
    dumped = execute([TDUMP_RUN, "-c", "names.yaml", "--", sys.executable, JOB], cwd)
    assert dumped.returncode == bare.returncode == 0, dumped.stderr
    return bare, dumped, latest(cwd)


@pytest.fixture(scope="module")
def scenes(job):
    return [tdump.load_pass(file) for file in job[2].passes(0)]


def calls(seen: tdump.Pass) -> list[str]:
    """Names in order of the begin of the calls; ! for those that raised."""
    return [call.name + "!" * call.threw for call in sorted(seen.calls(), key=lambda call: call.begin)]


def net(root: str = "", layers: int = 2) -> list[str]:
    """The calls of a whole Net, by hand."""
    prefix = f"{root}." if root else ""
    parts = [f"layers.{n}{part}" for n in range(layers) for part in ("", ".lin", ".act")]
    return [root or ".", *(prefix + part for part in ["embed", *parts])]


def test_the_job_is_the_same_job(job):
    bare, dumped, _ = job
    assert dumped.stdout == bare.stdout
    assert bare.stdout.splitlines()[:2] == ["raised ValueError", "raised KeyboardInterrupt"]


def test_two_instances_are_numbered_by_construction(scenes):
    assert calls(scenes[0]) == net("Net#1") + net()


def test_parts_by_hand_have_the_names_below_their_root(scenes):
    assert calls(scenes[1]) == ["layers.1.lin", *net()[2:5], *net()[1:]]
    assert calls(scenes[3]) == ["Net#4.layers.1.lin", *net("Net#4")]


def test_an_owner_found_later_gives_an_alias(scenes):
    assert calls(scenes[2]) == ["Layer#2", "Layer#2.lin", "Layer#2.act", *net("Late#3", layers=3)]
    assert "layers.2.lin" in scenes[2].record("Layer#2.lin").aliases
    assert "layers.2" in scenes[2].record("Layer#2").aliases


def test_copies_are_roots_of_their_own(scenes):
    assert calls(scenes[4]) == net("Net#5")
    assert calls(scenes[5]) == ["Net#6.embed", *net("Net#7")]


def test_names_that_the_user_gives(job, scenes):
    inner = ["inner", "inner.lin", "inner.act"]
    assert calls(scenes[6]) == [*net("judge"), *net("teacher"), *inner]
    (directory,) = job[2].ranks()[0]
    assert b"tdump.watch(str): expected a torch.nn.Module, got str" in (directory / "manifest.tdm").read_bytes()


def test_modules_added_late_and_moved(scenes):
    root = "Late#11"
    moved = [name for name in net(root, layers=3) if not name.endswith("embed")]
    assert (
        calls(scenes[7])
        == [
            *net(root),
            f"{root}.hidden",
            *net(root, layers=3),
            f"{root}.moved",
            root,
            f"{root}.embed",  # the new one
            *moved[1:],
        ]
    )
    embedded = [scenes[7].record(name) for name in (f"{root}.embed", f"{root}.moved", f"{root}.embed::call2")]
    assert [record.path for record in embedded] == ["embed", "moved", "embed"]
    assert all(record.aliases == () for record in embedded)  # each name was right when it was used


def test_exceptions_close_the_calls_they_leave(scenes):
    root, layer = "Fails#12", ["", ".lin", ".act"]

    def parts(name: str, threw: str = "") -> list[str]:
        marks = {"": threw, ".act": threw}
        return [f"{root}.{name}{part}{marks.get(part, '')}" for part in layer]

    whole = [root, *parts("before"), *parts("inside"), *parts("after")]
    failed = [f"{root}!", *parts("before"), *parts("inside", "!")]
    tap = ["after the error"]  # below no module
    assert calls(scenes[8]) == [*whole, *failed, *tap, *failed, *tap, *whole]
    of_root = [call for call in scenes[8].calls() if call.name == root]
    assert sorted(call.end == 0 for call in of_root) == [False, False, True, True]
    assert all(call.parent == 0 for call in of_root)  # none is taken to be inside the one that failed


def test_wrappers_are_not_part_of_a_name(scenes):
    seen = calls(scenes[9])
    again = [name for name in seen[8:] if name.startswith("Net")]
    assert seen[:8] == net("Net#13") and [name.rstrip("!") for name in again] == net("Net#13")[5:8]
    assert seen[8 + len(again) :] == net("Late#14")
    classes = {record.name: record.cls for record in scenes[9].records()}
    assert classes["Late#14.embed"] == "torch.nn.modules.linear.Linear" and classes["Late#14"].endswith(".Late")
    recomputed = {record.name for record in scenes[9].records() if record.recompute}
    assert recomputed <= set(net("Net#13")[5:8]) and recomputed  # checkpointing ran the layer again
    assert not any(name in scenes[9] for name in ("Net#13.layers.1::call1", "Net#13.layers.1.lin::call1"))


def test_modules_that_nobody_owns(scenes):
    assert calls(scenes[10]) == ["MSELoss"] * 3 + ["L1Loss", "L1Loss#1", "L1Loss"]


def test_nothing_is_kept_alive(job, scenes):
    assert job[1].stdout.splitlines()[2] == "alive [0, 0, 0]"  # modules, tensors, gradients
    assert calls(scenes[11]) == net("Net#15")


def test_a_reused_address_is_no_old_module(scenes):
    seen = list(scenes[12].calls())
    kinds = [("Conv1d", "Linear")[n % 2] for n in range(20)]
    assert [call.root for call in seen] == [f"{kind}#{16 + n}" for n, kind in enumerate(kinds)]
    assert [r.cls.rsplit(".")[-1] for r in scenes[12].records() if r.role == "output"] == kinds


# A new model for each step, and then many that live together; none may be searched for after the first.
MANY = """
import torch
from tdump import _naming

_naming._SEARCH_SECONDS = 0.0
for _ in range(20):
    torch.nn.Sequential(torch.nn.Linear(2, 2))(torch.ones(1, 2))
for model in [torch.nn.Sequential(torch.nn.Linear(2, 2)) for _ in range(20)]:
    model(torch.ones(1, 2))
"""


def test_many_models_are_no_loss(tmp_path):
    (tmp_path / "job.py").write_text(MANY)
    (tmp_path / "c.yaml").write_text("steps: all\ncapture: [{level: full}]\n")
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, "job.py"], tmp_path)
    assert done.returncode == 0 and "tdump: COMPLETE" in done.stderr, done.stderr
    assert done.stderr.count("owners of modules") == 1 and "not captured" not in done.stderr, done.stderr
    seen = [name for file in latest(tmp_path).passes(0) for name in calls(tdump.load_pass(file))]
    roots = ["", *(f"Sequential#{n}" for n in range(1, 40))]
    assert seen == [name for root in roots for name in (root or ".", f"{root}.0" if root else "0")]


# Names that are no C string, no line, no UTF-8.
ODD = ["first", "\0", "a\0b", "a\nb", "\x7f", "\udc80", "\ud800", "last"]
ODD_JOB = f"""
import torch
from torch import nn

net = nn.Sequential()
for name in {ODD!a}:
    net.add_module(name, nn.Linear(2, 2))
net.register_parameter("w\\0x", nn.Parameter(torch.ones(2)))
net(torch.ones(1, 2))
"""


def test_names_of_any_characters_are_kept_and_escaped(tmp_path):
    (tmp_path / "job.py").write_text(ODD_JOB)
    (tmp_path / "c.yaml").write_text("steps: all\ncapture: [{role: [output, param], level: full}]\n")
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, "job.py"], tmp_path)
    assert done.returncode == 0 and "tdump: COMPLETE" in done.stderr, done.stderr
    (file,) = latest(tmp_path).passes(0)
    odd = [name.replace("\ud800", "\\ud800") for name in ODD]
    seen = tdump.load_pass(file)
    assert calls(seen) == [".", *odd]
    arguments = [(record.path, record.arg) for record in seen.records() if record.role == "param"]
    assert sorted(arguments) == sorted([(".", "w\0x"), *((name, arg) for name in odd for arg in ("weight", "bias"))])
    view = BUILD / "bin" / "tdump-view"
    listed = execute([view, "latest", "--names"], tmp_path)
    assert listed.returncode == 0 and not set(listed.stdout) & {"\0", "\x7f"}, listed.stdout
    names = {line.split()[0] for line in listed.stdout.splitlines() if line}
    assert {"\\x00", "a\\x00b", "a\\x0ab", "\\x7f", "\\x80", "first", "last"} <= names
    addressed = execute([view, "latest:0/0/a%00b@output", "--values", "1"], tmp_path)
    assert addressed.returncode == 0 and "a\\x00b" in addressed.stdout, addressed.stderr
