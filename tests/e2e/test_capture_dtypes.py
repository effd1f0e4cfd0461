"""Every dtype and strided layout torch can allocate comes back with the bytes it had: channels_last, transposed, stepped,
overlapping, expanded. A slice costs its own bytes.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import tdump
import torch
from conftest import TDUMP_RUN, execute, latest

# Real parts and imaginary parts have the dtype of half the size.
HALVES = {
    "bcomplex32_parts": "bfloat16",
    "complex32_parts": "float16",
    "complex64_parts": "float32",
    "complex128_parts": "float64",
}
JOB = Path(__file__).parent / "jobs" / "dtypes_and_layouts.py"


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("dtypes")
    config = cwd / "all.yaml"
    config.write_text("capture: [{leaf: true, role: [output], level: full}]\n")
    done = execute([TDUMP_RUN, "-c", config, "--", sys.executable, JOB, cwd / "expected"], cwd)
    assert done.returncode == 0, done.stderr
    (file,) = latest(cwd).passes(0)
    return pickle.loads((cwd / "expected").read_bytes()), file


def test_the_bytes_of_every_dtype_and_layout(job):
    expected, file = job
    seen = tdump.load_pass(file)
    assert set(seen) == set(expected) and len({name.split(".")[1] for name in expected}) >= 40
    for name, (data, strides, conj, neg) in expected.items():
        record = seen.record(name)
        dtype = name.split(".")[1].removeprefix("t_")
        dtype = HALVES.get(dtype, dtype)
        assert (record.dtype, record.reason, record.conj, record.neg) == (dtype, "", conj, neg), name
        assert record.strides == strides, name
        assert (record.bytes, payload(seen, record)) == (len(data), data), name


def payload(seen: tdump.Pass, record) -> bytes:
    """The payload as it lies in the file, without the meaning of its dtype."""
    if not record.bytes:
        return b""
    return bytes(memoryview(seen._file.payload(record.id, True)).cast("B"))


def test_torch_gets_the_same_tensor_back(job):
    expected, file = job
    seen = tdump.load_pass(file, as_="torch")
    for name, (data, _, _, _) in expected.items():
        tensor, record = seen[name], seen.record(name)
        assert str(tensor.dtype) == f"torch.{record.dtype}" and tuple(tensor.shape) == record.shape, name
        if data and 0 not in tensor.stride():
            assert tensor.reshape(-1).view(torch.uint8).numpy().tobytes() == data, name


def test_numpy_gets_the_same_bits_back(job):
    expected, file = job
    seen = tdump.load_pass(file, as_="numpy")
    for name, (data, _, _, _) in expected.items():
        array, record = seen[name], seen.record(name)
        assert array.shape == record.shape, name
        if 0 not in array.strides:
            assert np.ascontiguousarray(array).tobytes() == data, name


def test_expanded_dimensions_cost_nothing(job):
    _, file = job
    seen = tdump.load_pass(file)
    record = seen.record("of.t_float32.one_to_million")
    assert (record.bytes, record.shape, record.strides) == (4, (1000, 1000), (0, 0))
    assert tuple(seen["of.t_float32.one_to_million"].stride()) == (0, 0)


PARTS = """
import torch
from torch import nn

class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.slice, self.chunks, self.two = nn.Identity(), nn.Identity(), nn.Identity()
    def forward(self):
        base = torch.arange(1_000_000, dtype=torch.float32)
        self.slice(base[10:20])
        for part in base[:10_000].chunk(10):
            self.chunks(part)
        self.two(torch.empty(0, dtype=torch.int32))
        self.two(torch.empty(0, dtype=torch.int64))
        self.two(base[:4])
        self.two(base[:4].view(torch.int32))

Parts()()
"""


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("parts")
    (cwd / "app.py").write_text(PARTS)
    (cwd / "c.yaml").write_text("capture: [{leaf: true, level: full}]\n")
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, "app.py"], cwd)
    assert done.returncode == 0, done.stderr
    (file,) = latest(cwd).passes(0)
    return file


def test_a_part_of_a_tensor_costs_its_own_bytes(parts):
    seen = tdump.load_pass(parts)
    record = seen.record("slice")
    assert (record.bytes, record.storage_offset, record.storage_bytes) == (40, 10, 4_000_000)
    assert seen["slice"].tolist() == [float(i) for i in range(10, 20)]
    chunks = [seen.record(name) for name in seen if name.startswith("chunks")]
    assert len(chunks) == 10 and sum(r.bytes for r in chunks) == 40_000
    assert len({r.storage_id for r in chunks} | {record.storage_id}) == 1  # they are parts of one
    assert parts.stat().st_size < 40_000 + 16 * 1024


HUGE = """
import re, pathlib, torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.row, self.column, self.far = (torch.nn.Identity() for _ in range(3))
    def forward(self, base):
        self.row(base[7, :50])
        self.column(base[:4000:1000, 5])
        self.far(base[-1, -3:])
def most():  # KiB that this process ever had in memory
    return int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
base = torch.empty(1 << 16, 1 << 18, dtype=torch.uint8)  # 16 GiB of addresses, of which a few pages are touched
base[7, :50], base[:4000:1000, 5], base[-1, -3:] = 1, 2, 3
net = Net()
with torch.no_grad():
    net(torch.zeros(8, 60, dtype=torch.uint8).repeat(500, 1))
    before = most()
    net(base)
print(before, most())
"""


def test_a_view_of_a_huge_tensor_costs_its_own_bytes(tmp_path):
    (tmp_path / "app.py").write_text(HUGE)
    (tmp_path / "c.yaml").write_text("signature: false\ncapture: [{leaf: true, role: [input, output], level: full}]\n")
    done = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, "app.py"], tmp_path)
    if "not enough memory" in done.stderr:
        pytest.skip("no 16 GiB of addresses here")
    assert done.returncode == 0, done.stderr
    before, after = map(int, done.stdout.split())
    assert after - before < 4 << 10
    file = latest(tmp_path).passes(0)[1]
    seen = tdump.load_pass(file)
    names = {"row": 50, "column": 4, "far": 3}
    for value, (name, count) in enumerate(names.items(), 1):
        assert seen.record(name).storage_bytes == 1 << 34
        assert seen.record(name).bytes == count and seen[name].tolist() == [value] * count
    assert file.stat().st_size < 16 << 10


def test_empty_tensors_share_no_storage(parts):
    seen = tdump.load_pass(parts)
    names = ["two", "two::call1", "two::call2", "two::call3"]
    records = [seen.record(name) for name in names]
    assert [r.dtype for r in records] == ["int32", "int64", "float32", "int32"]
    assert [r.storage_id for r in records[:2]] == [0, 0]  # 0 stands for none and is never compared
    assert records[2].storage_id == records[3].storage_id != 0
    assert seen["two::call3"].numpy().tobytes() == seen["two::call2"].numpy().tobytes()
