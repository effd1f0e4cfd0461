"""tdump-diff on what other tools wrote: files of torch.save, NumPy and safetensors, made by those libraries."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import BUILD, TDUMP_RUN, execute
from safetensors.torch import save_file

JOB = Path(__file__).parent / "jobs" / "foreign_dump.py"
CONFIG = """
capture:
  - {role: [input, output], level: full}
  - {leaf: true, role: [param], level: full}
"""


FLOATS = ("float64", "float32", "float16", "bfloat16") + tuple(
    f"float8_{kind}" for kind in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz")
)
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def diff(a, b, *options: str, status: int, cwd: Path) -> dict:
    done = execute([BUILD / "bin" / "tdump-diff", a, b, "--json", *options], cwd)
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(done.stdout) if status < 2 else {"error": done.stderr, "report": done.stdout}


def all_equal(report: dict, pairs: int) -> None:
    counts = report["counts"]
    assert (counts["paired"], counts["bitwise_equal"]) == (pairs, pairs), counts
    assert counts["unpaired_a"] == counts["unpaired_b"] == 0, report["unpaired"]


def awkward_tensors() -> dict[str, torch.Tensor]:
    """Contiguous tensors of every dtype that both .pt and safetensors have, and shapes with little in them."""
    generator = torch.Generator().manual_seed(1)
    numbers = torch.randn(5, 7, generator=generator)
    tensors = {name: (numbers * 3).to(getattr(torch, name)) for name in FLOATS}
    for name in INTEGERS:
        tensors[name] = torch.arange(35).reshape(5, 7).to(getattr(torch, name))
    tensors["bool"] = numbers > 0
    tensors["complex64"] = torch.complex(numbers, -numbers)
    tensors["special"] = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 1e-45])
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.empty(0, 3)
    return tensors


def views() -> dict[str, torch.Tensor]:
    """Views with strides, offsets and a storage in common."""
    base = torch.arange(240, dtype=torch.float32).reshape(4, 6, 10)
    return {
        "base": base,
        "transposed": base.transpose(0, 2),
        "row": base[2],
        "column": base[:, 3, :],
        "every_third": base[:, :, 1::3],
        "expanded": base[:, :1, :].expand(4, 5, 10),
        "twice": base.reshape(-1).unfold(0, 20, 10),
        "complex": torch.view_as_complex(base.clone().reshape(4, 6, 5, 2)).transpose(0, 1),
    }


@pytest.mark.parametrize("zipped", [True, False])
def test_torch_files_against_safetensors(tmp_path, zipped):
    tensors = awkward_tensors()
    if not zipped:  # the older form has no storages without a dtype
        tensors = {k: v for k, v in tensors.items() if not k.startswith(("float8", "uint1", "uint3", "uint6"))}
    torch.save(tensors, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    save_file(tensors, tmp_path / "b.safetensors")
    all_equal(diff("a.pt", "b.safetensors", "--require", "bitwise", status=0, cwd=tmp_path), len(tensors))
    # One element of one of them.
    tensors["bfloat16"][4, 6] += 1
    save_file(tensors, tmp_path / "c.safetensors")
    report = diff("a.pt", "c.safetensors", status=1, cwd=tmp_path)
    assert report["counts"]["failing"] == 1 and report["origin"]["name"] == "bfloat16"


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_views_against_copies(tmp_path, protocol):
    torch.save(views(), tmp_path / "views.pt", pickle_protocol=protocol)
    copies = {name: view.clone(memory_format=torch.contiguous_format) for name, view in views().items()}
    torch.save(copies, tmp_path / "copies.pt")
    all_equal(diff("views.pt", "copies.pt", "--require", "bitwise", status=0, cwd=tmp_path), len(copies))


def test_views_larger_than_a_block(tmp_path):
    base = torch.arange(3_000_000, dtype=torch.int32).reshape(1500, 2000)
    torch.save(base.T, tmp_path / "t.pt")
    np.save(tmp_path / "c.npy", base.T.contiguous().numpy())
    np.save(tmp_path / "f.npy", np.asfortranarray(base.T.numpy()))
    np.savez_compressed(tmp_path / "z.npz", t=np.asfortranarray(base.T.numpy()))
    for other in ("c.npy", "f.npy", "z.npz"):
        # Each has one tensor: that is the one that is meant, whatever the names are.
        report = diff("t.pt", other, "--require", "bitwise", status=0, cwd=tmp_path)
        assert report["counts"]["bitwise_equal"] == 1


def test_numpy_files(tmp_path):
    arrays = {k: v.numpy() for k, v in awkward_tensors().items() if not k.startswith(("float8", "bfloat"))}
    np.savez(tmp_path / "a.npz", **arrays)
    np.savez_compressed(tmp_path / "b.npz", **arrays)
    swapped = {k: v.astype(v.dtype.newbyteorder(">")) for k, v in arrays.items()}
    np.savez(tmp_path / "c.npz", **swapped)
    torch.save({k: torch.from_numpy(v) for k, v in arrays.items()}, tmp_path / "d.pt")
    for other in ("b.npz", "c.npz", "d.pt"):
        all_equal(diff("a.npz", other, "--require", "bitwise", status=0, cwd=tmp_path), len(arrays))
    (tmp_path / "dir").mkdir()
    for name, array in arrays.items():
        np.save(tmp_path / "dir" / f"{name}.npy", array)
    all_equal(diff("a.npz", "dir", "--require", "bitwise", status=0, cwd=tmp_path), len(arrays))


def test_parameters_and_containers(tmp_path):
    linear = torch.nn.Linear(3, 4)
    torch.save({"m": linear.weight, "list": [linear.bias, {"x": linear.bias}], "n": 3, "s": "x"}, tmp_path / "a.pt")
    data = {"m": linear.weight.data, "list": [linear.bias.data, {"x": linear.bias.data}]}
    torch.save(data, tmp_path / "b.pt")
    all_equal(diff("a.pt", "a.pt", "--require", "bitwise", status=0, cwd=tmp_path), 3)
    # A parameter says that it is one; a tensor takes that of the other side.
    all_equal(diff("a.pt", "b.pt", "--require", "bitwise", status=0, cwd=tmp_path), 3)


class Evil:
    def __reduce__(self):
        return os.system, (f"touch {os.environ['EVIL_MARK']}",)


def test_nothing_in_a_pickle_is_run(tmp_path, monkeypatch):
    mark = tmp_path / "mark"
    monkeypatch.setenv("EVIL_MARK", str(mark))
    torch.save({"x": torch.ones(2), "evil": Evil()}, tmp_path / "a.pt")
    torch.save(Evil(), tmp_path / "b.pt")
    torch.save({"x": torch.ones(2)}, tmp_path / "c.pt")
    report = diff("a.pt", "c.pt", status=0, cwd=tmp_path)
    assert any("system" in note and "never run" in note for note in report["notes"]), report["notes"]
    refused = diff("b.pt", "c.pt", status=2, cwd=tmp_path)
    assert "system" in refused["report"] + refused["error"]
    assert not mark.exists()


def test_what_is_no_dump_says_what_was_looked_for(tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    torch.save({"x": torch.ones(2)}, tmp_path / "c.pt")
    assert "safetensors" in diff("a.txt", "c.pt", status=2, cwd=tmp_path)["error"]
    assert "msprobe" in diff("empty", "c.pt", status=2, cwd=tmp_path)["error"]
    # A file that was cut is damage, not a difference.
    whole = (tmp_path / "c.pt").read_bytes()
    (tmp_path / "d.pt").write_bytes(whole[:-30])
    damaged = diff("c.pt", "d.pt", status=2, cwd=tmp_path)
    assert "d.pt" in damaged["report"] + damaged["error"]


@pytest.fixture(scope="module")
def captured(tmp_path_factory) -> Path:
    """The model, captured by tdump and dumped by itself in every way."""
    cwd = tmp_path_factory.mktemp("foreign")
    (cwd / "c.yaml").write_text(CONFIG)
    done = execute([TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", sys.executable, JOB], cwd)
    assert done.returncode == 0, done.stderr
    done = execute([sys.executable, JOB, "pass", "tagged", "probe", "state"], cwd)
    assert done.returncode == 0, done.stderr
    return cwd


LEAVES = 11  # embed, two blocks of four, head, scale
MODULES = LEAVES + 4  # two blocks, model, the whole
PARAMETERS = 17


def test_pass_files_against_a_run(captured):
    # What SGLang writes with the next pass is not there of the last one.
    missing = ("--allow-unpaired", r"^(\.|model\.layers\.\d|model|scale)$")
    report = diff("pass", "run", "--require", "bitwise", *missing, status=0, cwd=captured)
    counts = report["counts"]
    assert (counts["bitwise_equal"], counts["unpaired_a"], counts["unpaired_b"]) == (2 * LEAVES, 0, 8), counts
    assert report["steps"] == [[0, 0], [1, 1]]
    assert "A: model, scale: SGLang writes them with the next pass, put back" in report["notes"]
    # What the dump cannot have is no difference: inputs of both steps, parameters.
    notes = [note for note in report["notes"] if "left out" in note]
    assert len(notes) == 1 and notes[0].startswith("B: ") and notes[0].endswith("has only output"), report["notes"]


def test_the_dumper_against_a_run(captured):
    report = diff("tagged", "run", "--require", "bitwise", status=0, cwd=captured)
    all_equal(report, 2 * 2 * MODULES)
    assert [note for note in report["notes"] if note.endswith("has only input, output")], report["notes"]


def test_msprobe_against_a_run(captured):
    report = diff(
        "probe", "run", "--require", "bitwise", "--allow-unpaired", r"^(\.$|Functional)", status=0, cwd=captured
    )
    assert report["counts"]["bitwise_equal"] == 2 * 2 * (MODULES - 1) + 2 * PARAMETERS, report["counts"]


def test_weights_against_a_run(captured):
    for file in ("state/model.safetensors", "state/model.pt"):
        all_equal(diff(file, "run:0", "--require", "bitwise", status=0, cwd=captured), PARAMETERS)


@pytest.mark.parametrize("kind", ["pass", "tagged", "probe"])
def test_the_origin_in_a_dump_of_another_tool(captured, kind):
    report = diff(kind, f"faulty_{kind}", status=1, cwd=captured)
    assert (report["origin"]["name"], report["origin"]["step"]) == ("model.layers.1.up", 0)


def test_a_golden_file_against_one_operator(captured):
    golden = torch.load(captured / "pass" / "TP0_PP0_Rank0_pid7" / "Pass00001.pt")["model.layers.0.down"].numpy()
    np.save(captured / "golden.npy", golden)
    report = diff("golden.npy", "run:1/0/model.layers.0.down", "--require", "bitwise", status=0, cwd=captured)
    all_equal(report, 1)
    golden[0, 1, 2] += 1
    np.savez(captured / "wrong.npz", golden=golden, other=golden)
    report = diff("wrong.npz:golden", "run:1/0/model.layers.0.down", status=1, cwd=captured)
    origin = report["origin"]
    assert (origin["name"], origin["step"], origin["rank"]) == ("model.layers.0.down", 1, 0)
    missing = diff("golden.npy", "run:1/0/layers.9", status=2, cwd=captured)
    assert "layers.9" in missing["error"]
