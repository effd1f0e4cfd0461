"""Statistics, samples, slices and compressed payloads of a job, against what torch says of the same tensors."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import tdump
import torch
from conftest import BUILD, TDUMP_RUN, clean_environment, execute, latest

JOBS = Path(__file__).parent / "jobs"
sys.path.insert(0, str(JOBS))
from parts import tensors  # noqa: E402

FLUSHING = """
import sys, torch

assert torch.set_flush_denormal(sys.argv[1] == "flush")
f32 = torch.tensor([71362, -2147481507, 1065353216, 0], dtype=torch.int32).view(torch.float32)
bf16 = torch.tensor([1, -32765, 16256, 0], dtype=torch.int16).view(torch.bfloat16)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.f32, self.bf16 = torch.nn.Identity(), torch.nn.Identity()

    def forward(self):
        return self.f32(f32), self.bf16(bf16)

Net()()
print(f"{(f32[0] * 1).item():.3g}")
"""

REAL = ["f32", "f64", "bf16", "f16", "f8", "holes", "transposed"]


def run_with(level: str, cwd: Path, more: str = "") -> tdump.reader.Pass:
    cwd.mkdir(exist_ok=True)
    config = cwd / "c.yaml"
    config.write_text(f"signature: false\n{more}capture: [{{leaf: true, level: {level}}}]\n")
    done = execute([TDUMP_RUN, "-c", config, "--", sys.executable, JOBS / "parts.py"], cwd)
    assert done.returncode == 0, done.stderr
    (file,) = latest(cwd).passes(0)
    return tdump.load_pass(file)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("parts")


@pytest.fixture(scope="module")
def stats(home):
    return run_with("stats", home / "stats")


@pytest.mark.parametrize("name", REAL)
def test_statistics_of_floats(stats, name):
    record = stats.record(name)
    assert record.kept == ("meta", "stats") and record.bytes is None and record.hash is None
    have, all_of = record.stats, tensors()[name].double()
    finite = all_of[all_of.isfinite()]
    assert (have["count"], have["finite"]) == (all_of.numel(), finite.numel())
    assert have["nan"] == all_of.isnan().sum() and have["zeros"] == (all_of == 0).sum()
    assert have["positive_inf"] + have["negative_inf"] == all_of.isinf().sum()
    assert (have["min"], have["max"]) == (finite.min(), finite.max())
    for key, want in {
        "mean": finite.mean(),
        "std": finite.std(),
        "mean_abs": finite.abs().mean(),
        "l1": finite.abs().sum(),
        "l2": finite.norm(),
        "rms": finite.norm() / math.sqrt(finite.numel()),
    }.items():
        assert have[key] == pytest.approx(want.item(), rel=1e-12), key
    exponents = (torch.frexp(finite[finite != 0])[1] - 1 + 127).clamp(0, 255) // 8
    assert list(have["histogram"]) == torch.bincount(exponents, minlength=32).tolist()


def test_statistics_of_other_numbers(stats):
    integers, have = tensors()["i64"], stats.record("i64").stats
    assert (have["min"], have["max"], have["sum"]) == (integers.min(), integers.max(), sum(integers.flatten().tolist()))
    flags = stats.record("flags").stats
    assert (flags["sum"], flags["min"], flags["max"]) == (tensors()["flags"].sum(), 0, 1)
    magnitudes = tensors()["c64"].to(torch.complex128).abs()
    assert stats.record("c64").stats["max"] == pytest.approx(magnitudes.max().item(), rel=1e-15)
    assert stats.record("c64").stats["l2"] == pytest.approx(magnitudes.norm().item(), rel=1e-12)
    # What is expanded is there once.
    assert stats.record("expanded").stats["count"] == 200


@pytest.mark.parametrize("name", ["empty", "empty_rows", "empty_vector"])
def test_statistics_of_nothing_are_none(stats, name):
    """finegrain-ai/refiners#200"""
    record = stats.record(name)
    assert tuple(record.shape) == tuple(tensors()[name].shape)
    have = dict(record.stats)
    assert {key: have.pop(key) for key in ("count", "finite", "nan", "zeros")} == dict.fromkeys(
        ("count", "finite", "nan", "zeros"), 0
    )
    for key in ("min", "max", "mean", "std", "mean_abs", "l1", "l2", "absmax", "rms"):
        assert have[key] is None, key


def test_statistics_of_one_element(stats):
    have = stats.record("scalar").stats
    assert stats.record("scalar").shape == () and have["count"] == 1
    assert [have[key] for key in ("min", "max", "mean", "l1", "std")] == [-2.5, -2.5, -2.5, 2.5, None]


def test_view_shows_and_sorts_statistics(stats):
    run = stats.path.parent.parent
    view = [BUILD / "bin" / "tdump-view", run]
    ask = [*view, "--records", "--sort", "nan", "--top", "1", "--json"]
    done = subprocess.run(ask, env=clean_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["records"]
    assert (row["name"], row["nan"], row["inf"]) == ("holes", 1, 2)
    done = subprocess.run([*view, "--records"], env=clean_environment(), capture_output=True, text=True)
    head, *rows = done.stdout.splitlines()
    assert "absmax" in head and "rms" in head
    absmax = tensors()["f32"].abs().max().item()
    assert any(" f32 " in row and f"{absmax:.9g}" in row for row in rows)


def test_samples_are_spaced_evenly(home):
    seen = run_with("sample:5", home / "sample")
    for name in ("f32", "bf16", "transposed", "expanded"):
        flat = tensors()[name].flatten()
        last = flat.numel() - 1
        want = flat[[k * last // 4 for k in range(5)]]
        assert torch.equal(seen.sample(name), want), name
    assert seen.sample("empty").numel() == 0
    assert "f32" not in seen
    with pytest.raises(KeyError, match="only meta and sample"):
        seen["f32"]


def test_slices_are_the_tensor_there(home):
    seen = run_with("'slice[0:8, -3:]'", home / "slice")
    for name in ("f32", "i64", "transposed", "expanded", "empty"):
        want = tensors()[name][0:8, -3:]
        assert torch.equal(seen[name], want), name
        assert [size for _, size, _ in seen.record(name).slice] == list(want.shape)
    assert seen.record("f32").slice == ((0, 8, 1), (197, 3, 1))
    assert seen.record("f32").shape == (60, 200)
    assert seen.record("f32").bytes == 8 * 3 * 4
    assert seen.verify() == []


def test_diff_judges_what_was_kept(home):
    diff = [BUILD / "bin" / "tdump-diff", home / "slice" / "outputs" / "latest", home / "slice" / "outputs" / "latest"]
    done = subprocess.run(diff, env=clean_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SAME" in done.stdout


def test_compressed_payloads(home):
    seen = run_with("full", home / "zstd", "output: {compress: zstd}\n")
    for name, want in tensors().items():
        got = seen[name]
        if want.dtype.itemsize == 1:
            want, got = want.view(torch.uint8), got.view(torch.uint8)
        assert torch.equal(got.nan_to_num(), want.nan_to_num()) if name == "holes" else torch.equal(got, want), name
    plain = sum(want.numel() * want.dtype.itemsize for want in tensors().values())
    assert seen.path.stat().st_size < 0.9 * plain
    assert seen.verify() == []


def test_a_job_that_flushes_subnormal_numbers_is_captured_bit_for_bit(tmp_path):
    """What the job's threads do with them is not what is written and counted."""
    (tmp_path / "app.py").write_text(FLUSHING)
    (tmp_path / "c.yaml").write_text("signature: false\ncapture: [{role: output, level: [full, stats]}]\n")
    passes = {}
    for flush in ("flush", "keep"):
        done = execute([TDUMP_RUN, "-c", "c.yaml", "-o", flush, "--", sys.executable, "app.py", flush], tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout == ("0\n" if flush == "flush" else "1e-40\n")  # to the job itself they are zeros
        (file,) = (tmp_path / flush).glob("**/*.tdp")
        passes[flush] = tdump.load_pass(file)
    for dtype, bits in (("f32", [71362, -2147481507, 1065353216, 0]), ("bf16", [1, -32765, 16256, 0])):
        flushed, kept = (passes[flush].record(dtype) for flush in ("flush", "keep"))
        integer = torch.int32 if dtype == "f32" else torch.int16
        assert passes["flush"].tensor(flushed).view(integer).tolist() == bits
        assert flushed.hash == kept.hash and flushed.stats == kept.stats
        exact = torch.tensor(bits, dtype=integer).view(torch.float32 if dtype == "f32" else torch.bfloat16).double()
        have = flushed.stats
        assert have["zeros"] == 1 and (have["min"], have["max"]) == (exact.min(), exact.max())
        assert have["l1"] == exact.abs().sum() and have["min"] < 0


@pytest.mark.parametrize(("by_default", "by_rule"), [("none", "zstd"), ("zstd", "none")])
def test_a_rule_chooses_its_compression(home, by_default, by_rule):
    """Two tensors that shrink; one of them by a rule of its own."""
    cwd = home / f"{by_rule}_by_rule"
    cwd.mkdir()
    rules = f"[{{name: '^smooth$', level: full, compress: {by_rule}}}, {{name: '^flags$', level: full}}]"
    (cwd / "c.yaml").write_text(f"signature: false\noutput: {{compress: {by_default}}}\ncapture: {rules}\n")
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, JOBS / "parts.py"], cwd)
    assert done.returncode == 0, done.stderr
    (file,) = latest(cwd).passes(0)
    seen = tdump.load_pass(file)
    for name in ("smooth", "flags"):
        assert torch.equal(seen[name], tensors()[name]), name
    sizes = {name: tensors()[name].nbytes for name in ("smooth", "flags")}
    stored = seen.path.stat().st_size
    assert sizes["smooth"] > 50 * sizes["flags"]
    # Of the file nearly all is the one tensor.
    assert (stored < 0.7 * sizes["smooth"]) == (by_rule == "zstd"), stored
    assert (stored > sizes["smooth"]) == (by_rule == "none"), stored
    assert seen.verify() == []


SMALL_FLOATS = """
import torch
bits = torch.tensor([0x38, 0xC0, 0x7E, 0x7F], dtype=torch.uint8)  # 1, -2, 448, NaN
fnuz = torch.tensor([0x80, 0x00, 0x01], dtype=torch.uint8)  # NaN, 0, the smallest
class Net(torch.nn.Module):
    def forward(self):
        a = bits.view(torch.float8_e4m3fn).clone()
        return a, fnuz.view(torch.float8_e4m3fnuz).clone(), fnuz.view(torch.float8_e5m2fnuz).clone()
with torch.no_grad():
    Net()()
"""


def test_small_floats_have_statistics_where_operators_are_seen(tmp_path):
    """pytorch/pytorch#149008 and triton-lang/triton#10745, by the collector of operators."""
    (tmp_path / "app.py").write_text(SMALL_FLOATS)
    (tmp_path / "c.yaml").write_text(
        "signature: false\ncollect: {aten: on}\ncapture: [{op: '^aten::clone$', level: stats}]\n"
    )
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, "app.py"], tmp_path)
    assert done.returncode == 0, done.stderr
    (file,) = latest(tmp_path).passes(0)
    first, *others = sorted(tdump.load_pass(file).records(), key=lambda r: r.seen)
    have = first.stats
    assert (first.op, first.dtype) == ("aten::clone", "float8_e4m3fn")
    assert (have["min"], have["max"], have["nan"], have["mean"]) == (-2, 448, 1, 149)
    assert [r.dtype for r in others] == ["float8_e4m3fnuz", "float8_e5m2fnuz"]
    for record in others:
        have = record.stats
        assert (have["nan"], have["positive_inf"], have["negative_inf"]) == (1, 0, 0)
        assert (have["zeros"], have["negative_zeros"]) == (1, 0)


LARGE = """
import sys, torch
torch.set_num_threads(int(sys.argv[1]))
torch.manual_seed(3)
x = torch.randn(5_000_003) * torch.logspace(-30, 30, 5_000_003)
x[:4] = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0])
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.f32, self.bf16, self.i32 = (torch.nn.Identity() for _ in range(3))
    def forward(self):
        self.f32(x), self.bf16(x.bfloat16()), self.i32(torch.arange(5_000_003, dtype=torch.int32))
Net()()
"""
WAYS = {
    "as they come": ("1", "host: 256MiB"),
    "with more threads": ("2", "host: 256MiB"),
    "without a writer": ("1", "host: 256MiB, thread: false"),
    "in pieces": ("1", "host: 16MiB, max_block: 100%"),  # 20 MB, and 16 MiB are the least that there is
    "by the thread of the job": ("1", "host: 16MiB, at_limit: stats"),
}


def test_statistics_are_the_same_whoever_makes_them(tmp_path):
    """A function of the values alone: of the bits of every field."""
    (tmp_path / "app.py").write_text(LARGE)
    found = {}
    for number, (way, (threads, memory)) in enumerate(WAYS.items()):
        config = f"signature: false\nmemory: {{{memory}}}\ncapture: [{{leaf: true, level: [hash, stats]}}]\n"
        (tmp_path / "c.yaml").write_text(config)
        command = [TDUMP_RUN, "-c", "c.yaml", "-o", f"run{number}", "--", sys.executable, "app.py", threads]
        done = execute(command, tmp_path)
        assert done.returncode == 0, done.stderr
        (file,) = (tmp_path / f"run{number}").glob("**/*.tdp")
        records = {r.name: r for r in tdump.load_pass(file).records()}
        assert set(records) == {"f32", "bf16", "i32"}
        found[way] = {name: (r.hash, repr(r.stats)) for name, r in records.items()}
    first = found["as they come"]
    for way, values in found.items():
        assert values == first, way
    assert "None" not in first["f32"][0] and "'nan': 1" in first["f32"][1]
