"""Captures of CUDA tensors, end to end. Run by tests/gpu/run.sh on a machine that has a device; TDUMP_BUILD names the
build tree. TEST_DEVICE=cpu runs the same job on the CPU, to check the test itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

BUILD = Path(os.environ["TDUMP_BUILD"])
JOB = Path(__file__).with_name("job.py")
DEVICE = os.environ.get("TEST_DEVICE", "cuda")
sys.path.insert(0, str(BUILD / "python"))
import tdump  # noqa: E402

pytestmark = pytest.mark.skipif(DEVICE == "cuda" and not torch.cuda.is_available(), reason="no CUDA device")


def run(cwd: Path, level: str | None):
    """The job, under tdump-run unless `level` is None: its messages, what it saved, its passes."""
    command = [sys.executable, str(JOB), str(cwd / "saved.pt")]
    env = {key: value for key, value in os.environ.items() if not key.startswith("TDUMP_") and key != "LD_PRELOAD"}
    env["PYTHONPATH"] = str(BUILD / "python")
    if level is not None:
        config = cwd / "tdump.yaml"
        config.write_text(
            "steps: {select: all, boundary: explicit}\noutput: {layout: pass}\n"
            "memory: {device: 300MiB, host: 2GiB, max_block: 100%}\n"
            f"signature: false\ncapture:\n  - {{leaf: true, role: [output], level: {level}}}\n"
        )
        command = [str(BUILD / "bin" / "tdump-run"), "-c", str(config), "--", *command]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=80)
    assert done.returncode == 0, done.stdout + done.stderr
    saved = torch.load(cwd / "saved.pt")
    passes = []
    if level is not None:
        files = sorted((cwd / "outputs" / "latest").resolve().glob("rank0_*/pass*.tdp"))
        passes = [tdump.load_pass(file) for file in files]
    return done.stderr, saved["expected"], saved["facts"], passes


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return run(tmp_path_factory.mktemp("full"), "full")


@pytest.fixture(scope="module")
def reduced(tmp_path_factory):
    return run(tmp_path_factory.mktemp("reduced"), "[hash, stats]")


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def test_outputs_and_taps_are_the_copies_that_torch_makes(full):
    _, expected, _, passes = full
    wrong = []
    for name, value in expected.items():
        record = passes[0].record(name)
        if record.reason or tuple(value.shape) != tuple(record.shape) or bits(passes[0].tensor(record)) != bits(value):
            wrong.append((name, record.reason, record.reason_detail, record.kept))
        if record.role == "output" and not name.startswith("cpu_"):
            assert record.device.startswith(DEVICE), name
    assert not wrong


def test_the_value_at_that_moment(full):
    passes = full[3]
    values = {"seven": 7, "freed": 3, "reused": 4}
    if DEVICE == "cuda":
        values |= {"on_side": 5, "behind": 8}
    found = {name: passes[0][name].unique().tolist() for name in values}
    assert found == {name: [value] for name, value in values.items()}


@pytest.mark.skipif(DEVICE != "cuda", reason="of the device")
def test_the_jobs_streams_are_not_waited_for(full):
    facts = full[2]
    assert facts["still_running"]
    assert facts["tap_seconds"] < 0.1
    print("tap while the device is busy:", facts["tap_seconds"])


@pytest.mark.skipif(DEVICE != "cuda", reason="of the device")
def test_staging_is_what_it_says(full):
    message, _, facts, _ = full
    assert "staging 300.0 MiB a GPU" in message or "staging 300 MiB a GPU" in message
    # The ring, the modules of the kernels, events, and what torch loads besides; nothing that grows.
    assert 300 << 20 <= facts["used_by_tdump"] < 900 << 20


@pytest.mark.skipif(DEVICE != "cuda", reason="of the device")
def test_graph_capture_goes_through(full):
    _, _, facts, passes = full
    assert facts["graph_equal"]
    assert {record.reason_detail for record in passes[1].records() if record.reason} == {"CUDA graph capture"}


def test_hash_and_statistics_are_those_of_the_same_bytes_on_the_host(full, reduced):
    _, expected, _, passes = reduced
    records = {record.name: record for record in passes[0].records()}
    wrong = []
    for name in expected:
        if "cpu_" + name not in records:
            continue
        there, here = records[name], records["cpu_" + name]
        assert "payload" not in there.kept
        if there.reason or there.hash is None or there.hash != here.hash or there.stats != here.stats:
            wrong.append((name, there.reason, there.hash, here.hash, there.stats, here.stats))
        elif there.hash != full[3][0].record(name).hash:
            wrong.append((name, "differs from the run with payloads"))
        elif expected[name].numel() and there.stats is None:
            wrong.append((name, "no statistics"))
    assert not wrong


def test_nan_and_infinity_are_beside_the_range(reduced):
    """pytorch/pytorch#6996"""
    found = {name: reduced[3][0].record(name).stats for name in ("nan_within", "nan_first", "all_nan", "infinities")}
    keys = ("min", "max", "mean", "nan", "positive_inf", "negative_inf")
    assert {name: tuple(stats[key] for key in keys) for name, stats in found.items()} == {
        "nan_within": (1, 3, 2, 1, 0, 0),
        "nan_first": (1, 3, 2, 1, 0, 0),
        "all_nan": (None, None, None, 3, 0, 0),
        "infinities": (None, None, None, 1, 1, 1),
    }


def test_the_job_computes_what_it_does_without_tdump(full, reduced, tmp_path):
    plain = run(tmp_path, None)
    for _, _, facts, _ in (full, reduced):
        assert facts["loss"] == plain[2]["loss"]
        assert facts["gradients"] == plain[2]["gradients"]
