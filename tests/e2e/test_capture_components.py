"""Sparse, nested and quantised tensors: their components are recorded, and load_pass puts them together again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tdump
import torch
from conftest import TDUMP_RUN, execute, latest

JOBS = Path(__file__).parent / "jobs"
sys.path.insert(0, str(JOBS))
from components import tensors  # noqa: E402


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("components")
    config = cwd / "c.yaml"
    config.write_text("capture: [{leaf: true, level: [full, stats]}]\n")
    done = execute([TDUMP_RUN, "-c", config, "--", sys.executable, JOBS / "components.py"], cwd)
    assert done.returncode == 0, done.stderr
    (file,) = latest(cwd).passes(0)
    return tdump.load_pass(file)


@pytest.mark.parametrize("name", ["coo_uncoalesced", "coo", "csr", "csc", "bsr", "bsc"])
def test_sparse(seen, name):
    want, got = tensors()[name], seen[name]
    assert (got.layout, got.shape, got.dtype) == (want.layout, want.shape, want.dtype)
    if want.layout is torch.sparse_coo:
        assert got.is_coalesced() == want.is_coalesced()
        assert torch.equal(got._indices(), want._indices()) and torch.equal(got._values(), want._values())
    assert torch.equal(got.to_dense(), want.to_dense())
    assert seen.record(name).kept == ("meta",) and seen.record(name).reason == ""


@pytest.mark.parametrize("name", ["nested", "nested_empty", "jagged", "jagged_heads", "jagged_lengths", "jagged_last"])
def test_nested(seen, name):
    want, got = tensors()[name], seen[name]
    assert got.is_nested and (got.layout, got.dtype) == (want.layout, want.dtype)
    assert [part.tolist() for part in got.unbind()] == [part.tolist() for part in want.unbind()]


def test_quantised_as_a_whole(seen):
    want, got = tensors()["per_tensor"], seen["per_tensor"]
    assert torch.equal(got.int_repr(), want.int_repr())
    assert (got.q_scale(), got.q_zero_point(), got.dtype) == (0.25, 3, torch.qint8)
    assert torch.equal(got.dequantize(), want.dequantize())


@pytest.mark.parametrize("bits", [64, 32])
def test_zero_points_by_channel_are_read_as_wide_as_they_are(seen, bits):
    """pytorch/executorch#21773"""
    name = f"per_channel_{bits}"
    want, got = tensors()[name], seen[name]
    assert seen[f"{name}.zero_points"].tolist() == [30, 50, 60, 90]
    assert seen[f"{name}.zero_points"].dtype == want.q_per_channel_zero_points().dtype
    assert torch.equal(got.int_repr(), want.int_repr()) and got.q_per_channel_axis() == 0
    assert torch.equal(got.dequantize(), want.dequantize())
    points = seen.record(f"{name}.zero_points")
    dtype = str(want.q_per_channel_zero_points().dtype).removeprefix("torch.")
    assert (points.dtype, points.stats["count"], points.stats["sum"]) == (dtype, 4, 230)
    assert (points.stats["min"], points.stats["max"]) == (30, 90)


def test_dequantised_values_have_the_same_statistics_whatever_the_zero_points(seen):
    """pytorch/executorch#21773"""
    wide, narrow = (seen[f"per_channel_{bits}"].dequantize().double() for bits in (64, 32))
    want = tensors()["per_channel_64"].dequantize().double()
    for of in (torch.min, torch.max, torch.mean, torch.std, torch.linalg.norm):
        assert of(wide) == of(want) and of(narrow) == pytest.approx(of(want).item(), rel=1e-6)
    # The stored numbers have what their zero points leave: q = x / scale + zero point.
    for bits in (64, 32):
        numbers, have = tensors()[f"per_channel_{bits}"].int_repr(), seen.record(f"per_channel_{bits}").stats
        assert (have["min"], have["max"], have["sum"]) == (numbers.min(), numbers.max(), numbers.sum())


def test_statistics_are_of_the_components(seen):
    values = seen.record("csr.values").stats
    assert (values["count"], values["max"], values["sum"]) == (3, 9.0, None)
    integers = tensors()["per_tensor"].int_repr()
    stats = seen.record("per_tensor").stats
    assert (stats["min"], stats["max"], stats["sum"]) == (integers.min(), integers.max(), integers.sum())


def test_without_its_components_a_tensor_is_not_there(tmp_path):
    done = execute([TDUMP_RUN, "--level", "hash", "--", sys.executable, JOBS / "components.py"], tmp_path)
    assert done.returncode == 0, done.stderr
    (file,) = latest(tmp_path).passes(0)
    hashes = tdump.load_pass(file)
    assert list(hashes) == [] and hashes.record("csr").layout == "sparse_csr"
    assert hashes.record("csr.values").hash is not None
    with pytest.raises(KeyError, match="components were not kept"):
        hashes["csr"]


def test_slices_of_components_are_not_joined(tmp_path):
    command = [TDUMP_RUN, "--level", "slice[0:1]", "--", sys.executable, JOBS / "components.py"]
    done = execute(command, tmp_path)
    assert done.returncode == 0, done.stderr
    (file,) = latest(tmp_path).passes(0)
    sliced = tdump.load_pass(file)
    for name in ("csr", "bsr", "nested"):
        with pytest.raises(KeyError, match="only a slice of .* was"):
            sliced[name]
    assert sliced["csr.values"].tolist() == tensors()["csr"].values()[:1].tolist()


def test_numpy_has_the_parts(seen):
    arrays = tdump.load_pass(seen.path, as_="numpy")
    assert set(arrays["csr"]) == {"crow_indices", "col_indices", "values"}
    assert arrays["per_tensor"].tolist() == tensors()["per_tensor"].int_repr().view(torch.uint8).tolist()
