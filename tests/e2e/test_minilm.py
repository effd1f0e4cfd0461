"""The whole chain on the real model: mpirun -n 4 tdump-run -> module hook -> sink -> pass files -> merge -> diff."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest
import torch
from conftest import BUILD, SOURCE, TDUMP_RUN, execute, latest, mpirun

ENCODE = SOURCE / "examples" / "minilm" / "encode.py"
CONFIG = SOURCE / "examples" / "minilm" / "tdump.yaml"
RANKS = 4
QUERY = "encoder.layer.3.attention.self.query"


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("minilm")
    command = [sys.executable, str(ENCODE)]
    bare = mpirun(RANKS, command, cwd)
    assert bare.returncode == 0, bare.stderr
    dumped = mpirun(RANKS, [TDUMP_RUN, "-c", str(CONFIG), "--", *command], cwd)
    return cwd, bare, dumped


def test_the_job_is_the_same_job(job):
    _, bare, dumped = job
    assert dumped.returncode == 0, dumped.stderr
    lines = [line for text in bare.printed for line in text.splitlines()]
    assert len(lines) == RANKS and all(re.fullmatch(r"rank \d outputs \w{64} rng \w{64}", line) for line in lines)
    assert dumped.printed == bare.printed


def test_each_rank_has_two_passes_and_its_name(job):
    cwd, _, _ = job
    run = latest(cwd)
    assert sorted(run.ranks()) == list(range(RANKS))
    for rank in range(RANKS):
        assert len(run.ranks()[rank]) == 1
        assert [p.name for p in run.passes(rank)] == ["pass00000.tdp", "pass00001.tdp"]


def test_one_start_message_of_three_lines(job):
    _, _, dumped = job
    lines = [line for line in dumped.stderr.splitlines() if line.startswith("tdump: ")]
    assert re.fullmatch(
        r"tdump: on, 4 ranks on 1 node, run outputs/tdump_\S+ \(generation 0\), config \S*tdump.yaml",
        lines[0],
    ), dumped.stderr
    assert lines[1].startswith("tdump: step = forward") and lines[1].endswith("writing steps 0-1 on 4 ranks")
    assert re.match(r"tdump: arena \S+ [KMG]iB a process, disk at most ", lines[2])
    assert sum(line.startswith("tdump: on,") for line in lines) == 1


def hooked_outputs(rank: int) -> list[dict[str, torch.Tensor]]:
    """The outputs of all leaf modules in both steps of `rank`, taken by hand."""
    spec = importlib.util.spec_from_file_location("encode", ENCODE)
    encode = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(encode)
    torch.set_num_threads(1)
    model, tokenizer = encode.load_encoder()
    step: dict[str, torch.Tensor] = {}
    for name, module in model.named_modules():
        if not list(module.children()):
            module.register_forward_hook(lambda m, a, out, name=name: step.__setitem__(name, out.clone()))
    share = Path(encode.SENTENCES).read_text(encoding="utf-8").splitlines()[rank::RANKS]
    steps = []
    with torch.inference_mode():
        for n in range(2):
            step.clear()
            model(**tokenizer(share[4 * n : 4 * n + 4], padding=True, return_tensors="pt"))
            steps.append(dict(step))
    return steps


@pytest.mark.parametrize("rank", [0, 3])
def test_the_tensors_are_those_of_a_forward_hook(job, rank):
    import tdump

    cwd, _, _ = job
    for file, expected in zip(latest(cwd).passes(rank), hooked_outputs(rank), strict=True):
        seen = tdump.load_pass(file)
        assert len(expected) == 73
        for name, tensor in expected.items():
            assert torch.equal(torch.as_tensor(seen[name]), tensor), name


@pytest.fixture(scope="module")
def faulty(job, tmp_path_factory):
    """The same job with one bit of one weight flipped on rank 2."""
    cwd = tmp_path_factory.mktemp("faulty")
    command = [sys.executable, str(ENCODE), "--fault", f"2:{QUERY}.weight:23"]
    done = mpirun(RANKS, [TDUMP_RUN, "-c", str(CONFIG), "--", *command], cwd)
    assert done.returncode == 0, done.stderr
    return latest(cwd).path


def test_merge_finds_nothing_missing(job, faulty):
    for run in (latest(job[0]).path, faulty):
        merged = execute([BUILD / "bin" / "tdump-merge", "--strict", run], run)
        assert merged.returncode == 0, merged.stdout + merged.stderr
        assert (run / "manifest.tdm").stat().st_size > 0


def test_diff_names_rank_operator_and_step(job, faulty):
    clean = latest(job[0]).path
    done = execute([BUILD / "bin" / "tdump-diff", "--json", clean, faulty], clean)
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert report["verdict"] == "differs"
    origin = report["origin"]
    assert (origin["rank"], origin["name"], origin["step"]) == (2, QUERY, 0)
    assert origin["certain"] and origin["ranks_agreeing"] == [0, 1, 3]
    # Only one weight of the 103 differs, and only where it was flipped. Column 0 of the output is x[0] times it.
    assert report["parameters"]["compared"] == 103
    assert [(d["name"], d["rank"]) for d in report["parameters"]["differing"]] == [(f"{QUERY}.weight", 2)]
    assert origin["difference"]["metrics"]["worst"]["position"][-1] == 0
    buffers = {
        "compared": 2,
        "differing_names": 0,
        "allowed_names": 0,
        "differing": [],
        "following_names": 0,
        "farthest": None,
    }
    assert report["buffers"] == buffers
    # Of each rank: weights once, in both steps 3 inputs of the model and 73 leaf modules with an input and an output.
    assert report["counts"]["paired"] == RANKS * (103 + 2 + 2 * (3 + 73 + 73))
    assert report["counts"]["unpaired_a"] == report["counts"]["unpaired_b"] == 0


def test_a_run_is_the_same_as_itself(job):
    clean = latest(job[0]).path
    done = execute([BUILD / "bin" / "tdump-diff", "--require", "bitwise", "--json", clean, clean], clean)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["verdict"] == "same" and report["origin"] is None
    assert report["counts"]["bitwise_equal"] == report["counts"]["paired"]
