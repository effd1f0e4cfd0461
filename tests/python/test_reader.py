"""The reader on the golden files: every dtype as NumPy and as torch gives it, nothing imported before it is needed."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tdump

GOLDEN = Path(__file__).parents[1] / "format" / "golden"
DENSE = "encoder.layer.0.dense"
FILES = ["pass.tdp", "pass_big_endian.tdp"]


@pytest.fixture(params=FILES)
def numpy_pass(request) -> tdump.Pass:
    return tdump.load_pass(GOLDEN / request.param, as_="numpy")


def test_numpy_values(numpy_pass):
    def value(arg: str) -> np.ndarray:
        return numpy_pass[f"{DENSE}.{arg}"]

    np.testing.assert_array_equal(value("f32"), np.array([[1, 2, 3], [-4, 0.5, 6]], np.float32), strict=True)
    np.testing.assert_array_equal(value("f64"), np.array(np.pi), strict=True)
    np.testing.assert_array_equal(value("u64"), np.array([0, 2**63, 2**64 - 1], np.uint64), strict=True)
    np.testing.assert_array_equal(value("bool"), np.array([True, False]), strict=True)
    np.testing.assert_array_equal(value("c64"), np.array([1 - 2j, 0.25 + 8j], np.complex64), strict=True)
    np.testing.assert_array_equal(value("channels_last"), np.arange(8, dtype=np.int32).reshape(1, 2, 2, 2), strict=True)
    row = np.array([[[10, 11]] * 3, [[12, 13]] * 3], np.int32)
    np.testing.assert_array_equal(value("expanded"), row, strict=True)
    assert value("expanded").strides[1] == 0
    assert (value("empty").shape, value("empty").dtype) == ((0, 5), np.int32)


def test_bits_of_dtypes_that_numpy_lacks(numpy_pass):
    for arg, name, dtype, bits in (
        ("bf16", "bfloat16", np.uint16, [0x3F80, 0xC040]),
        ("f8", "float8_e4m3fn", np.uint8, [0x38, 0xC0, 0x7E, 0x7F]),
        ("f4", "float4_e2m1fn_x2", np.uint8, [0x72, 0x9F]),
    ):
        array = numpy_pass[f"{DENSE}.{arg}"]
        assert (array.dtype, array.tolist()) == (dtype, bits)
        assert array.dtype.metadata == {"tdump": name}
    posit = numpy_pass[f"{DENSE}.posit24"]
    assert (posit.dtype.itemsize, posit.tobytes()) == (3, bytes([1, 2, 3, 4, 5, 6]))


@pytest.mark.parametrize("file", FILES)
def test_torch_values(file):
    torch = pytest.importorskip("torch")
    step = tdump.load_pass(GOLDEN / file)
    assert torch.equal(step[f"{DENSE}.bf16"], torch.tensor([1, -3], dtype=torch.bfloat16))
    f8 = step[f"{DENSE}.f8"]
    assert f8.dtype == torch.float8_e4m3fn and f8[:3].float().tolist() == [1, -2, 448] and f8[3].float().isnan()
    f4 = step[f"{DENSE}.f4"]
    assert f4.dtype == torch.float4_e2m1fn_x2 and f4.view(torch.uint8).tolist() == [0x72, 0x9F]
    assert step[f"{DENSE}.u64"].tolist() == [0, 2**63, 2**64 - 1]
    assert torch.equal(step[f"{DENSE}.c64"], torch.tensor([1 - 2j, 0.25 + 8j]))
    assert step[f"{DENSE}.f64"].shape == () and step[f"{DENSE}.empty"].shape == (0, 5)
    # A dtype torch does not know: its bytes, in a dimension of their own.
    assert step[f"{DENSE}.posit24"].tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("file", FILES)
def test_records_and_calls(file):
    step = tdump.load_pass(GOLDEN / file, as_="numpy")
    assert step.complete and step.verify() == []
    assert (step.info.rank, step.info.job_step, step.info.mode, step.info.host) == (2, 41241, "train", "node042")
    records = list(step.records())
    assert [record.id for record in records] == list(range(1, 17))
    shared = records[13]
    assert shared.key == "Critic%231:.::call9007199254740993@output#1.hidden~m1.c2.l3.b.r"
    assert shared.call == 2**53 + 1 and shared.name == "Critic#1"
    assert step.tensor(shared).tolist() == [1, 2, 3, -4, 0.5, 6]
    assert (records[14].kept, records[14].bytes) == (("meta", "hash"), None)
    assert (records[15].reason_detail, records[15].layout) == ("DTensor", "subclass")
    assert (records[15].dims, records[15].global_shape) == ("b h[tp]", (2, 32))
    first, second = step.calls()
    assert first.arguments == (("input", "0", "float32", (2, 3)), ("output", "", "float32", (2, 3)))
    assert (second.op, second.threw, second.text) == ("aten::addmm", True, "beta=1, alpha=0.5")
    with pytest.raises(KeyError, match=r"its values were not kept, only meta \(wrapper subclass, meta only DTensor\)"):
        step.tensor(records[15])


def test_a_record_is_found_by_every_spelling_of_its_key():
    """Compared with a search through all records."""
    step = tdump.load_pass(GOLDEN / "pass.tdp", as_="numpy")
    for record in step.records():
        for text in {record.key, record.key.replace("aten%3A%3A", "aten::")}:
            assert step.record(text).id == record.id, text
    for text in ("encoder@output#none", "encoder@nothing#0", "encoder@output", "\udcff@output#"):
        with pytest.raises(KeyError, match="has no record"):
            step.record(text)


def test_what_stands_for_missing_values_is_named():
    step = tdump.load_pass(GOLDEN / "parts.tdp", as_="numpy")
    statistics, *_, sample, _ = step.records()
    with pytest.raises(KeyError, match=r"only meta and stats; record\(name\)\.stats has the statistics"):
        step.tensor(statistics)
    with pytest.raises(KeyError, match=r"only meta and sample; sample\(name\) has the sample"):
        step.tensor(sample)


def test_a_pass_of_a_packed_file_is_named_by_its_number():
    file = GOLDEN / "packed.tdp"
    assert [tdump.load_pass(f"{file}#{n}", as_="numpy").info.ordinal for n in (0, 1)] == [0, 1]
    with pytest.raises(ValueError, match=r"packed\.tdp: a packed file of 2 passes, number 0-1, .*name one as '.*#0'"):
        tdump.load_pass(file)
    with pytest.raises(ValueError, match=r"it has no pass 7; name one as '.*packed\.tdp#0'"):
        tdump.load_pass(f"{file}#7")
    assert {entry.ordinal for entry in tdump.open(f"{file}#1").passes} == {1}


def run_python(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_loads_nothing():
    code = """
import sys
before = set(sys.modules)
import tdump
tdump.step(); tdump.watch(None); assert tdump.tap(7, "x") == 7
print(sorted({m.split(".")[0] for m in set(sys.modules) - before} & {"numpy", "torch"}), "tdump._io" in sys.modules)
assert tdump.load_pass and "tdump._io" in sys.modules and "torch" not in sys.modules
try: tdump.nothing
except AttributeError as error: print(error)
"""
    assert run_python(code).splitlines() == ["[] False", "module 'tdump' has no attribute 'nothing'"]


def test_without_the_extension_the_error_says_what_to_do(tmp_path):
    package = tmp_path / "tdump"
    package.mkdir()
    for source in Path(tdump.__file__).parent.glob("*.py"):
        (package / source.name).write_text(source.read_text())
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import tdump
tdump.step()
try: tdump.load_pass("x")
except ImportError as error: print(error)
"""
    said = run_python(code, str(tmp_path))
    assert said.startswith("tdump.load_pass needs the compiled module tdump._io") and "pip install ." in said


def test_a_pass_that_could_not_be_written_says_why(tmp_path):
    (tmp_path / "rank0_pid1").mkdir()
    shutil.copy(GOLDEN / "manifest.tdm", tmp_path / "rank0_pid1")
    run = tdump.open(tmp_path, as_="numpy")
    lost = dataclasses.replace(run.passes[0], file="", error="no space left on device")
    with pytest.raises(KeyError, match="step .* of rank .* is in no file: no space left on device"):
        run.open(lost)


def test_a_run_is_no_pass_file(tmp_path):
    with pytest.raises(IsADirectoryError, match=r"tdump\.open\(\) opens a run"):
        tdump.load_pass(tmp_path)


def test_a_generation_that_is_not_there_is_told(tmp_path):
    folder = tmp_path / "rank2_pid7"
    folder.mkdir()
    shutil.copy(GOLDEN / "pass.tdp", folder / "pass00041.tdp")
    (there,) = {tdump.open(tmp_path, as_="numpy").generation}
    assert tdump.open(f"{tmp_path}@{there}", as_="numpy").passes
    with pytest.raises(FileNotFoundError, match=f"the run has no generation {there + 4}; it has {there}"):
        tdump.open(f"{tmp_path}@{there + 4}", as_="numpy")
