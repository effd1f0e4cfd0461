"""tdump-diff on the C++ example: a fault in one rank's shard shows in every rank's sum, and its rank is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import BUILD, SOURCE, TDUMP_RUN, execute, mpirun

PROGRAM = BUILD / "bin" / "examples" / "tp_transformer"
CONFIG = SOURCE / "examples" / "tp_transformer" / "tdump.yaml"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="built without the C++ examples")


def capture(directory: Path, *arguments: str, ranks: int = 2) -> Path:
    command = [TDUMP_RUN, "-c", CONFIG, "-o", directory, "--", PROGRAM, *arguments]
    done = mpirun(ranks, command, directory.parent)
    assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture(scope="module")
def clean(tmp_path_factory) -> Path:
    return capture(tmp_path_factory.mktemp("tp") / "clean")


def diff(a: Path, b: Path, *options: str, status: int) -> dict:
    done = execute([BUILD / "bin" / "tdump-diff", a, b, "--json", *options], SOURCE)
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_two_runs_are_the_same(clean):
    report = diff(clean, capture(clean.parent / "again"), "--require", "bitwise", status=0)
    assert report["verdict"] == "same"
    assert report["counts"]["bitwise_equal"] == report["counts"]["paired"] > 0


@pytest.mark.parametrize("module", ["layers.1.mlp.down", "layers.1.attention.output"])
def test_the_rank_of_a_row_parallel_weight_is_named(clean, module):
    faulty = capture(clean.parent / module, "--fault", f"1:{module}.weight:23")
    report = diff(clean, faulty, status=1)
    origin = report["origin"]
    assert (origin["rank"], origin["name"], origin["step"]) == (1, module, 0)
    assert origin["parameter"] == f"{module}.weight" and origin["certain"]
    assert [(d["name"], d["rank"]) for d in report["parameters"]["differing"]] == [(f"{module}.weight", 1)]
    # Without the tap on the partial sums both ranks hold the wrong sum: the weight decides.
    outputs = diff(clean, faulty, "--select", r"^(?!.*/)", status=1)["origin"]
    assert (outputs["rank"], outputs["name"], outputs["step"]) == (1, module, 0)
    assert outputs["ranks_alike"] == [0]


def test_one_rank_against_another(clean):
    """Shards differ between the ranks, what both hold in full does not."""
    report = diff(clean / "rank0", clean / "rank1", "--select", "^(token_embedding|layers.0.attention_norm)", status=0)
    assert report["ranks"] == [[0, 1]] and report["verdict"] == "same"
    assert diff(clean / "rank0", clean / "rank1", status=1)["verdict"] == "differs"


def test_another_number_of_ranks(clean):
    """Shards are put together: outputs of column-parallel layers joined, partial sums added, the rest equal on both."""
    one = capture(clean.parent / "one", ranks=1)
    report = diff(one, clean, "--steps", "0", status=0)
    assert report["job"]["ranks_a"] == [0] and report["job"]["ranks_b"] == [0, 1]
    assert report["counts"]["unpaired_a"] == report["counts"]["unpaired_b"] == report["counts"]["unresolved"] == 0
    layouts = report["job"]["layouts_b"]
    assert any(how.startswith("concatenated") for how in layouts) and any("sum" in how for how in layouts)
    assert all("(inferred)" in how or "from shapes" in how for how in layouts)

    faulty = capture(clean.parent / "faulty", "--fault", "1:layers.1.attention.query.weight:23")
    origin = diff(one, faulty, status=1)["origin"]
    assert (origin["rank"], origin["name"], origin["step"]) == (1, "layers.1.attention.query", 0)


def test_processes_under_mpirun_give_the_report_of_one(clean, tmp_path):
    """For any number of them, byte for byte; only the first one prints."""
    faulty = capture(clean.parent / "shared", "--fault", "1:layers.0.mlp.down.weight:7")
    tool = str(BUILD / "bin" / "tdump-diff")
    for words, status in ([str(clean), str(faulty), "--all"], 1), ([str(clean), str(clean), "--json"], 0):
        alone = execute([tool, *words], tmp_path)
        assert alone.returncode == status, alone.stderr
        for processes in (1, 2, 3):
            shared = mpirun(processes, [tool, "--mpi", *words], tmp_path)
            assert shared.returncode == status, shared.stderr
            assert shared.printed == [alone.stdout] + [""] * (processes - 1)


def test_processes_share_the_work_where_ranks_are_put_together(clean, tmp_path):
    """One rank against two, with all reports; and what a pattern that only another process asks about has found."""
    one = capture(clean.parent / "one_shared", ranks=1)
    faulty = capture(clean.parent / "faulty_shared", "--fault", "1:layers.1.attention.query.weight:23")
    tool = str(BUILD / "bin" / "tdump-diff")
    for words in ([str(one), str(faulty)], [str(faulty), str(one), "--verify", "--align", "mlp", "--align", "nothing"]):
        files = [tmp_path / "alone.jsonl", tmp_path / "alone.html"]
        alone = execute([tool, *words, "--all", "--jsonl", files[0], "--html", files[1]], tmp_path)
        assert alone.returncode == 1, alone.stderr
        for processes in (1, 2, 3, 5):
            shared_files = [tmp_path / f"shared{file.suffix}" for file in files]
            options = ["--all", "--jsonl", str(shared_files[0]), "--html", str(shared_files[1])]
            shared = mpirun(processes, [tool, "--mpi", *words, *options], tmp_path)
            assert shared.returncode == 1, shared.stderr
            assert shared.printed == [alone.stdout] + [""] * (processes - 1)
            for file, shared_file in zip(files, shared_files, strict=True):
                assert shared_file.read_bytes() == file.read_bytes()


def test_an_error_where_ranks_are_put_together_is_told_once(clean, tmp_path):
    one = capture(clean.parent / "one_told", ranks=1)
    tool = str(BUILD / "bin" / "tdump-diff")
    shared = mpirun(3, [tool, "--mpi", str(one), str(clean), "--topology", "B:tp=3"], tmp_path)
    assert shared.returncode == 2
    assert shared.stderr.count("tdump-diff: ") == 1 and "tp=3" in shared.stderr


def test_what_fails_fails_in_all_processes(clean, tmp_path):
    shared = mpirun(2, [str(BUILD / "bin" / "tdump-diff"), "--mpi", str(clean), str(tmp_path / "none")], tmp_path)
    assert shared.returncode == 2
    assert shared.stderr.count("tdump-diff: ") == 1


def test_no_mpi_library_is_opened_without_being_asked_for(clean, tmp_path):
    done = execute([BUILD / "bin" / "tdump-diff", clean, clean], tmp_path, env={"LD_DEBUG": "files"})
    assert done.returncode == 0
    assert "libstdc++" in done.stderr and "libmpi" not in done.stderr
