"""A Llama of transformers against a twin of the same weights written as Megatron-Core does, on four ranks: the shipped map
pairs them, no --dims; and one wrong FP8 scale on one rank is named."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch
from conftest import SOURCE, TDUMP_RUN, Run, execute, mpirun
from diffing import diff, rows, said, where

JOBS = SOURCE / "tests" / "e2e" / "jobs"
RECIPE = SOURCE / "configs" / "port.yaml"
MAP = ("--map", "hf-megatron")
RANKS = 4
STEPS = 2
LAYERS = 3
VOCABULARY = 500


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("decoder") / "decoder.pt"
    done = execute([sys.executable, str(JOBS / "decoder.py"), str(file)], file.parent)
    assert done.returncode == 0, done.stderr
    return file


def megatron(directory: Path, weights: Path, *arguments: str) -> Path:
    job = [sys.executable, JOBS / "decoder_megatron.py", weights, "--store", f"{directory}.store", *arguments]
    done = mpirun(RANKS, [str(w) for w in [TDUMP_RUN, "-c", RECIPE, "-o", directory, "--", *job]], directory.parent)
    assert done.returncode == 0 and "COMPLETE" in done.stderr, done.stderr
    directory.with_suffix(".txt").write_text("".join(done.printed))
    return directory


@pytest.fixture(scope="module")
def reference(weights) -> Path:
    directory = weights.parent / "hf"
    job = [sys.executable, JOBS / "decoder_hf.py", weights]
    done = execute([str(w) for w in [TDUMP_RUN, "-c", RECIPE, "-o", directory, "--", *job]], weights.parent)
    assert done.returncode == 0 and "COMPLETE" in done.stderr, done.stderr
    directory.with_suffix(".txt").write_text(done.stdout)
    return directory


@pytest.fixture(scope="module")
def twin(weights) -> Path:
    return megatron(weights.parent / "megatron", weights)


def test_the_two_compute_the_same(reference, twin):
    """What they print of their logits, the twin's put together by gloo; and that they are written as said."""
    import tdump

    texts = [run.with_suffix(".txt").read_text().split() for run in (reference, twin)]
    numbers = [[float(word) for word in text if word != "logits"] for text in texts]
    assert len(numbers[0]) == len(numbers[1]) == 2 * STEPS
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-4)
    a = tdump.load_pass(Run(reference).passes(0)[0])
    b = [tdump.load_pass(Run(twin).passes(rank)[0]) for rank in range(RANKS)]
    norm = [a["model.layers.1.input_layernorm"], b[2]["decoder.layers.1.input_layernorm"]]
    assert norm[0].shape == (2, 24, 128) and norm[1].shape == (24, 2, 128)
    assert torch.allclose(norm[0], norm[1].transpose(0, 1), rtol=1e-4, atol=1e-4)
    assert a["lm_head@param#weight"].shape == (500, 128) and b[3]["output_layer@param#weight"].shape == (128, 128)
    qkv = b[1]["decoder.layers.0.self_attention.linear_qkv@param#weight"]  # group 1: two queries, a key, a value
    of_a = [a[f"model.layers.0.self_attn.{n}_proj@param#weight"] for n in "qkv"]
    assert torch.equal(qkv, torch.cat((of_a[0][32:64], of_a[1][16:32], of_a[2][16:32])))


def test_a_map_is_asked_for_by_name(reference, twin):
    done = said(reference, twin, status=2)
    assert "NOT COMPARABLE" in done and "--map hf-megatron" in done


@pytest.mark.parametrize("turned", [False, True])
def test_the_shipped_map_pairs_all(reference, twin, turned, tmp_path):
    a, b = (twin, reference) if turned else (reference, twin)
    report = diff(a, b, *MAP, status=0)
    counts = report["counts"]
    assert report["verdict"] == "same" and counts["failing"] == counts["allowed"] == counts["not_judged"] == 0
    assert counts["unpaired_a"] == counts["unpaired_b"] == 0
    # Counted under the names of B: three projections of attention and two of the MLP, or the fused ones.
    names = (9 if turned else 6) * LAYERS + 3
    assert report["parameters"]["compared"] == names and report["parameters"]["differing_names"] == 0
    found = [row for row in rows(a, b, tmp_path / "rows.jsonl", *MAP) if row["type"] == "pair"]
    weights = [row for row in found if row["role"] == "param"]
    assert weights and all(row["verdicts"]["bitwise"] == "same" for row in weights)
    text = " ".join(f"{row['name']} {row.get('name_a', '')} {row.get('name_b', '')}" for row in found)
    for layer in range(LAYERS):
        for part in ["q_proj", "k_proj", "v_proj", "o_proj"]:
            assert f"layers.{layer}.self_attn.{part}" in text
        for part in ["gate_proj", "up_proj", "down_proj"]:
            assert f"layers.{layer}.mlp.{part}" in text


def outputs(run: Path) -> set[str]:
    import tdump

    return {r.path for r in tdump.load_pass(Run(run).passes(0)[0]).records() if r.role == "output"}


def test_what_has_no_partner_is_known(reference, twin, tmp_path):
    """Of all outputs, those that one of the two does not compute, or not as a module."""
    pairs = [row for row in rows(reference, twin, tmp_path / "rows.jsonl", *MAP) if row["role"] == "output"]
    activations = {f"model.layers.{i}.mlp.act_fn" for i in range(LAYERS)}
    assert outputs(reference) - {row["name_a"] for row in pairs} == {"model.rotary_emb"} | activations
    attention = [f"decoder.layers.{i}.self_attention.core_attention" for i in range(LAYERS)]
    scores = {f"{a}.{part}" for a in attention for part in ("scale_mask_softmax", "attention_dropout")}
    left = outputs(twin) - {row["name"] for row in pairs}
    assert left == {"rotary_pos_emb", "embedding.embedding_dropout"} | scores
    text = said(reference, twin, *MAP, status=0)
    assert "of A only, as the map says" in text and "of B only, as the map says" in text


def test_a_run_in_fp8_is_the_same(reference, weights):
    lossy = megatron(weights.parent / "fp8", weights, "--fp8")
    assert diff(reference, lossy, *MAP, "--compute", "fp8", status=0)["verdict"] == "same"
    assert diff(reference, lossy, *MAP, status=1)["verdict"] == "differs"


@pytest.mark.parametrize(
    ("module", "theirs"),
    [("mlp.linear_fc1", "mlp.(gate|up)_proj"), ("self_attention.linear_qkv", "self_attn.[qkv]_proj")],
)
def test_one_wrong_scale_of_a_column_parallel_layer_is_named(reference, weights, module, theirs):
    wrong = weights.parent / f"wrong_{module}"
    megatron(wrong, weights, "--fp8", "--wrong-scale", f"2:decoder.layers.1.{module}:4")
    report = diff(reference, wrong, *MAP, "--compute", "fp8", status=1)
    name, rank, step = where(report)
    assert (rank, step) == (2, 0)
    assert re.search(rf"layers\.1\.({theirs}|{module})", name), name


def test_one_wrong_scale_of_a_row_parallel_layer_is_named(reference, weights):
    """All ranks hold the wrong sum. Against one rank the operator is named, against the same layout the rank as well."""
    fc2 = "decoder.layers.1.mlp.linear_fc2"
    clean = megatron(weights.parent / "partials", weights, "--partials")
    wrong = megatron(weights.parent / "wrong_partial", weights, "--fp8", "--partials", "--wrong-scale", f"2:{fc2}:4")
    name, rank, step = where(diff(clean, wrong, "--compute", "fp8", status=1))
    assert name.startswith(fc2) and (rank, step) == (2, 0)
    name, _, step = where(diff(reference, wrong, *MAP, "--compute", "fp8", status=1))
    assert ("layers.1.mlp.down_proj" in name or fc2 in name) and step == 0
