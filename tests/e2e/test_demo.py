"""The demo: what it prints, what its document says, and the answers to other faults."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD, SOURCE, TDUMP_RUN, execute, mpirun

EXAMPLE = SOURCE / "examples" / "minilm"
QUERY = "encoder.layer.3.attention.self.query"
DENSE = "encoder.layer.5.output.dense"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """What ./demo does after building, with its runs and its document in a directory of the test."""
    cwd = tmp_path_factory.mktemp("demo")
    command = [sys.executable, EXAMPLE / "demo.py", "--runs", cwd, "--json", "said.json"]
    environment = {"TDUMP_BUILD": str(BUILD), "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    done = execute(command, cwd, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return cwd, done.stdout


@pytest.fixture(scope="module")
def clean(demo) -> Path:
    return demo[0] / "clean"


def imported(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def answer():
    """The text that the demo makes of a report."""
    return imported("demo").answer


def capture(directory: Path, *arguments: str) -> Path:
    command = [TDUMP_RUN, "-c", EXAMPLE / "tdump.yaml", "-o", directory, "--", sys.executable, EXAMPLE / "encode.py"]
    done = mpirun(4, [*command, *arguments], directory.parent)
    assert done.returncode == 0, done.stderr
    return directory


def diff(a: Path, b: Path, *options: str, status: int) -> dict:
    done = execute([BUILD / "bin" / "tdump-diff", a, b, "--json", *options], SOURCE)
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fault", f"9:{QUERY}.weight:23"], "rank 9 is not one of 0..3"),
        (["--fault", f"1:{QUERY}.weight:99"], "bit 99 is not one of 0..31"),
        (["--fault", "1:nope:26"], "no parameter nope; nearest: "),
        (["--fault", f"1:{QUERY}.wieght:26"], f"nearest: {QUERY}.weight, "),
        (["--htlm", "x"], "unrecognized arguments"),
    ],
)
def test_arguments_come_first(arguments, said):
    done = execute([SOURCE / "demo", *arguments], SOURCE)
    assert done.returncode == 2
    assert said in done.stderr and "setup:" not in done.stderr, done.stderr


def test_help_builds_nothing():
    done = execute([SOURCE / "demo", "--help"], SOURCE)
    assert done.returncode == 0 and done.stdout.startswith("usage: ./demo") and done.stderr == ""


def test_the_names_known_before_the_build_are_those_of_the_model():
    model, _ = imported("encode").load_encoder()
    assert imported("demo").parameter_names() == [name for name, _ in model.named_parameters()]


def test_document(demo):
    report = json.loads((demo[0] / "said.json").read_text())
    assert report["verdict"] == "differs"
    assert {key: report["origin"][key] for key in ("rank", "name", "step")} == {"rank": 2, "name": QUERY, "step": 0}
    assert report["parameters"]["compared"] == 103
    assert [d["name"] for d in report["parameters"]["differing"]] == [f"{QUERY}.weight"]


def test_text(demo):
    text = demo[1]
    assert "operators: 79 selected, 73 seen" in text
    assert "never called: encoder.layer.{0-5}.attention.self.dropout" in text
    assert f"\nORIGIN    rank 2, step 0, {QUERY}, output\n" in text
    assert f"\nanswer    rank 2, step 0, {QUERY}: its inputs agree, its output does not\n" in text
    assert "; ranks 0, 1 and 3 agree\n" in text
    assert f"\n          1 of 103 parameters differs: {QUERY}.weight on rank 2\n" in text
    assert "\nnext " not in text and len(re.findall(r"^look closer: ", text, re.MULTILINE)) == 1  # one way to go on
    *lines, last = text[text.index("DIFFERS") :].splitlines()
    assert lines[-1].startswith("your job  ") and last.startswith("export PATH=")
    assert max(len(line) for line in lines if not line.startswith("look closer: ")) <= 140  # its path may be long


def test_the_last_line_runs_in_any_shell(demo, tmp_path):
    bare = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    line = demo[1].splitlines()[-1]
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=bare, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\ntdump: COMPLETE  latest = " in "\n" + done.stdout and "4 of 4 wrote all" in done.stdout, done.stdout


def words(report: str) -> list[str]:
    """Whatever its numbers are, and wherever its lines break."""
    return re.sub(r"-?\d[\d,.]*(e[+-]\d+)?", "#", report).split()


def test_the_readme_shows_it(demo):
    readme = re.search(r"```\n(A outputs/demo/clean.*?)```", (SOURCE / "README.md").read_text(), re.DOTALL)[1]
    said = re.search(r"^A .*^look closer: [^\n]*\n", demo[1], re.DOTALL | re.MULTILINE)[0]
    assert words(said.replace(str(demo[0]), "outputs/demo")) == words(readme)


def test_another_fault_has_another_answer(clean, answer):
    faulty = capture(clean.parent / "dense", "--fault", f"1:{DENSE}.weight:26")
    report = diff(clean, faulty, status=1)
    assert (report["origin"]["rank"], report["origin"]["name"], report["origin"]["step"]) == (1, DENSE, 0)
    assert report["origin"]["certain"] and report["origin"]["ranks_agreeing"] == [0, 2, 3]
    assert f"1 of 103 parameters differs: {DENSE}.weight on rank 1" in answer(report)


def test_no_fault_is_the_same_bit_for_bit(clean, answer):
    report = diff(clean, capture(clean.parent / "again"), "--require", "bitwise", status=0)
    assert report["verdict"] == "same" and report["origin"] is None
    assert report["counts"]["bitwise_equal"] == report["counts"]["paired"] == report["counts"]["equal_by_hash"]
    assert "all 103 parameters are equal on all ranks, bit for bit" in answer(report)


def test_the_lowest_bit_differs_in_bits_only(clean, answer):
    near = capture(clean.parent / "near", "--fault", f"2:{QUERY}.weight:0")
    exact = diff(clean, near, "--require", "bitwise", status=1)
    assert exact["verdict"] == "differs"
    assert (exact["origin"]["rank"], exact["origin"]["name"], exact["origin"]["step"]) == (2, QUERY, 0)
    within = diff(clean, near, status=0)
    assert within["verdict"] == "same" and within["parameters"]["differing_names"] == 1
    assert within["counts"]["bitwise_equal"] < within["counts"]["paired"]
    assert "1 of 103 parameters differs" in answer(within)
