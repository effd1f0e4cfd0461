"""tdump-export on the golden files: other readers of each format get the bytes that tdump's own gives."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pyarrow.parquet
import pytest
import tdump
from tdump import _export, _export_arrays, _export_files, _export_parquet

SOURCE = Path(__file__).parents[2]
GOLDEN = SOURCE / "tests" / "format" / "golden"
PASS = GOLDEN / "pass.tdp"


def export(*arguments, status: int = 0) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _export.main([str(word) for word in arguments]) == status


def values() -> dict[str, tuple[tdump.Record, np.ndarray]]:
    """By key: what the reader gives of every record that has values."""
    step = tdump.load_pass(PASS, as_="numpy")
    return {r.key: (r, step.tensor(r)) for r in step.records() if r.bytes is not None}


def test_npy(tmp_path):
    export(PASS, "--npy", "-o", tmp_path)
    head, *lines = (tmp_path / "names.tsv").read_text().splitlines()
    assert head.split("\t") == ["file", "step", "rank", "key", "dtype", "shape", "hash"]
    expected = values()
    assert len(lines) == len(expected) == len(list(tmp_path.glob("*.npy")))
    for line in lines:
        file, step, rank, key, dtype, shape, digest = line.split("\t")
        record, array = expected[key]
        assert (step, rank, dtype, shape, digest) == ("41", "2", record.dtype, str(list(array.shape)), record.hash)
        read = np.load(tmp_path / file, allow_pickle=False)
        assert (read.dtype.str, read.shape, read.tobytes()) == (array.dtype.str, array.shape, array.tobytes())


def test_npz(tmp_path):
    export(PASS, "--npz", "-o", tmp_path)
    (file,) = tmp_path.iterdir()
    assert file.name == "step41_rank2.npz"
    with np.load(file, allow_pickle=False) as archive:
        expected = values()
        assert set(archive.files) == {*expected, "dtypes"}
        for key, (_, array) in expected.items():
            assert archive[key].tobytes() == array.tobytes()
        assert '"bfloat16"' in str(archive["dtypes"])


def test_safetensors(tmp_path, capsys):
    from safetensors import safe_open

    export(PASS, "--safetensors", "-o", tmp_path)
    expected = values()
    known = {k for k, (r, _) in expected.items() if r.dtype in ("float32", "float64", "uint64", "bfloat16", "bool")}
    with safe_open(tmp_path / "step41_rank2.safetensors", framework="pt") as file:
        assert known < set(file.keys()) <= set(expected)
        left_out = len(expected) - len(file.keys())
        for key in known:
            tensor, array = file.get_tensor(key), expected[key][1]
            assert tuple(tensor.shape) == array.shape
            assert (
                tensor.contiguous().view(-1).numpy(force=True).tobytes() == array.tobytes()
                if array.dtype.metadata is None
                else True
            )
    assert f"{left_out} left out, of dtypes that the format does not have" in capsys.readouterr().out


def test_an_address_and_a_pattern_select(tmp_path):
    key = "encoder.layer.0.dense@output#f32"
    assert key in values()
    for number, address in enumerate([f"{PASS}:41/2/{key}", f"{PASS}:41/2/encoder.layer.0.dense#f32"]):
        export(address, "--npy", "-o", tmp_path / str(number))
        assert len(list((tmp_path / str(number)).glob("*.npy"))) == 1, address
    export(PASS, "--npy", "-o", tmp_path / "select", "--select", "Critic")
    assert {p.name.split("_rank2_")[1][:6] for p in (tmp_path / "select").glob("*.npy")} == {"Critic"}


F32 = "encoder.layer.0.dense@output#f32"
CALL = "Critic#1::call9007199254740993"


@pytest.mark.parametrize(
    ("place", "key"),
    [
        (f"41/2/{F32}", F32),
        ("41/2/encoder.layer.0.dense, output f32", F32),  # as tdump-diff prints it
        ("41/2/enc….dense, output f32", F32),
        (f"41241/2/{F32}", F32),  # the job's own number of the step
        (f"41/2/{CALL}", "Critic%231:.::call9007199254740993@output#1.hidden~m1.c2.l3.b.r"),
        (f"41/2/{CALL}~m1.c2.l3.b.r", "Critic%231:.::call9007199254740993@output#1.hidden~m1.c2.l3.b.r"),
        ('41/2/a%b/c:d@e#f/tap "x"\n', 'a%25b%2Fc%3Ad%40e%23f/tap "x"%0A@input#kwargs.x'),
    ],
)
def test_names_are_those_that_the_other_tools_take(tmp_path, place, key):
    export(f"{PASS}:{place}", "--npz", "-o", tmp_path)
    (file,) = tmp_path.iterdir()
    with np.load(file, allow_pickle=False) as archive:
        assert set(archive.files) == {key, "dtypes"}


@pytest.mark.parametrize(
    "run", ["", "/", "/rank2", "@1", "@1/rank2", "/rank2_pid3069569", "/rank2_pid3069569/pass00003.tdp"]
)
@pytest.mark.parametrize("place", ["", ":41", ":41/", ":41/2", ":41/2/", f":41/2/{F32}"])
def test_runs_are_named_as_for_the_other_tools(tmp_path, run, place):
    directory = tmp_path / "a:1" / "rank2_pid3069569"
    directory.mkdir(parents=True)
    shutil.copy(PASS, directory / "pass00003.tdp")
    export(f"{directory.parent}{run}{place}", "--npz", "-o", tmp_path / "out")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["step41_rank2.npz"]


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors", "parquet"])
@pytest.mark.parametrize(
    ("place", "select", "why"),
    [
        (":41/3", [], "no pass of step 41, rank 3; the run has steps 41 to 41, ranks 2 to 2"),
        (":40", [], "no pass of step 40, rank any"),
        (":41/2/nowhere", [], f"no record matches nowhere; tdump-view {PASS} --names lists them"),
        ("", ["--select", "^nowhere$"], "no record matches --select ^nowhere$"),
    ],
)
def test_what_is_not_there_is_told(tmp_path, capsys, kind, place, select, why):
    export(f"{PASS}{place}", f"--{kind}", "-o", tmp_path, *select, status=2)
    assert why in capsys.readouterr().err


def test_each_pass_has_its_own_files():
    selection = _export.Selection(str(PASS), [])
    passes = [SimpleNamespace(step=1, rank=0, process=p, extra=extra) for p, extra in [(0, 0), (0, 0), (1, 0), (0, 1)]]
    assert [selection.stem(entry) for entry in passes] == [
        "step1_rank0",
        "step1_rank0_2",
        "step1_rank0_p1",
        "step1_rank0_extra",
    ]


def test_a_tensor_too_large_for_the_memory_is_told(tmp_path, monkeypatch, capsys):
    def none_left(*_):
        raise MemoryError

    monkeypatch.setattr(_export_arrays, "_values", none_left)
    export(PASS, "--npy", "-o", tmp_path, status=2)
    assert "not enough memory" in capsys.readouterr().err


def test_parquet_has_every_record_and_pass(tmp_path):
    export(PASS, "--parquet", "-o", tmp_path)
    rows = pyarrow.parquet.read_table(tmp_path / "records.parquet").to_pylist()
    records = list(tdump.load_pass(PASS, as_="numpy").records())
    assert [row["key"] for row in rows] == [record.key for record in records]
    for row, record in zip(rows, records, strict=True):
        assert (row["step"], row["rank"], row["dtype"], row["hash"]) == (41, 2, record.dtype, record.hash)
        assert (tuple(row["shape"]), row["bytes"], row["call"]) == (record.shape, record.bytes, record.call)
        assert tuple(row["kept"]) == record.kept
    (step,) = pyarrow.parquet.read_table(tmp_path / "passes.parquet").to_pylist()
    assert (step["step"], step["rank"], step["host"], step["mode"]) == (41, 2, "node042", "train")


def test_statistics_become_columns(tmp_path):
    export(GOLDEN / "parts.tdp", "--parquet", "-o", tmp_path)
    rows = pyarrow.parquet.read_table(tmp_path / "records.parquet").to_pylist()
    records = list(tdump.load_pass(GOLDEN / "parts.tdp", as_="numpy").records())
    assert any(record.stats for record in records)
    for row, record in zip(rows, records, strict=True):
        for name in ("count", "finite", "nan", "zeros", "absmax", "mean"):
            expected = None if record.stats is None else record.stats[name]
            exact = expected is None or name not in ("absmax", "mean")
            assert row[f"stat_{name}"] == (expected if exact else float(expected))


def export_with(changes: dict[str, dict], directory: Path, monkeypatch) -> None:
    """The index of the golden pass, as if records, by their keys, had these fields."""

    class Changed(_export.Selection):
        def records(self, opened):
            for record in super().records(opened):
                yield dataclasses.replace(record, **changes.get(record.key, {}))

    with monkeypatch.context() as patch:
        patch.setattr(_export, "Selection", Changed)
        export(PASS, "--parquet", "-o", directory)


def test_the_documented_duckdb_recipes_find_nan_and_other_hashes(tmp_path, monkeypatch):
    """The SQL of the guide itself. In run A outputs have NaN, which only some have; in run B one hash is another."""
    records = list(tdump.load_pass(PASS, as_="numpy").records())
    outputs = sorted((r for r in records if r.role == "output" and r.hash), key=lambda r: r.seen)
    others = [r for r in records if r.role != "output"]
    assert len(outputs) >= 3 and others
    early, late, other = outputs[0], outputs[-1], outputs[1]
    nan = {r.key: {"stats": {"count": 9, "nan": n}} for r, n in [(late, 2), (early, 1), (other, 0), (others[0], 3)]}
    export_with(nan, tmp_path / "index_a", monkeypatch)
    digest = "0" * 31 + "1"
    unknown = {"hash": None}  # of a record that was kept without it
    export_with({other.key: {"hash": digest}, late.key: unknown}, tmp_path / "index_b", monkeypatch)

    text = (SOURCE / "docs" / "compare.md").read_text()
    recipes = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    assert len(recipes) == 2
    monkeypatch.chdir(tmp_path)
    nans, hashes = (duckdb.sql(recipe) for recipe in recipes)
    assert nans.columns == ["step", "rank", "name", "class", "stat_nan"]
    assert nans.fetchall() == [(41, 2, early.name, early.cls, 1), (41, 2, late.name, late.cls, 2)]
    assert hashes.columns == ["step", "rank", "key", "hash_a", "hash_b"]
    assert hashes.fetchall() == [(41, 2, other.key, other.hash, digest)]
    count = duckdb.sql("SELECT count(*), sum(bytes) FROM 'index_a/records.parquet'").fetchall()[0]
    assert count == (len(records), sum(r.bytes or 0 for r in records))


def test_row_groups_bound_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(_export_parquet, "_ROWS_AT_ONCE", 5)
    export(PASS, "--parquet", "-o", tmp_path)
    file = pyarrow.parquet.ParquetFile(tmp_path / "records.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [5, 5, 5, 1]


def test_names_that_are_no_text_become_text():
    assert _export_files.utf8("a\udcffb") == "a\\udcffb"


def test_a_key_that_comes_again_is_written_too():
    records = [SimpleNamespace(id=n, key="a@output#0", bytes=4) for n in (1, 2)]
    selection = SimpleNamespace(records=lambda _: records)
    assert [name for name, _ in _export_arrays._with_values(selection, None)] == ["a@output#0", "a@output#0 (2)"]


def test_without_pyarrow_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    export(PASS, "--parquet", "-o", tmp_path / "x", status=2)
    assert "pip install pyarrow" in capsys.readouterr().err
    export(PASS, "--npy", "-o", tmp_path / "y")


def test_damage_is_told_and_the_rest_is_written(tmp_path, capsys):
    step = tdump.load_pass(PASS, as_="numpy")
    array = step["encoder.layer.0.dense.f32"]
    raw = bytearray(PASS.read_bytes())
    raw[raw.index(array.tobytes())] ^= 1
    (tmp_path / "bad.tdp").write_bytes(raw)
    for kind in ("npy", "safetensors"):
        export(tmp_path / "bad.tdp", f"--{kind}", "-o", tmp_path / kind, status=2)
        assert "bad.tdp: offset" in capsys.readouterr().err
    assert len(list((tmp_path / "npy").glob("*.npy"))) == sum(
        other.tobytes() != array.tobytes() for _, other in values().values()
    )
    assert not list(tmp_path.glob("*/*.part"))


def test_trouble_says_what_to_do(tmp_path, capsys):
    export(tmp_path / "nowhere", "--npy", "-o", tmp_path / "x", status=2)
    assert "nowhere" in capsys.readouterr().err
    export(PASS, "--npy", "-o", tmp_path / "x", "--select", "(", status=2)
    assert "--select" in capsys.readouterr().err
    shutil.copy(PASS, tmp_path / "file")
    capsys.readouterr()
    for kind in ("--npy", "--parquet", "--txt"):
        for place in (tmp_path / "file", tmp_path / "file" / "below"):
            export(PASS, kind, "-o", place, status=2)
            assert f"-o {place}: a file is in the way" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        export(PASS, "-o", tmp_path)
    assert ended.value.code == 2


class _NoValues(_export.Selection):
    """Of the golden pass, as if nothing but statistics had been kept of the records that ``bare`` takes."""

    def records(self, opened):
        for record in super().records(opened):
            bare = "bare" in self._bare or record.key.startswith(tuple(self._bare))
            yield dataclasses.replace(record, bytes=None, kept=("meta", "stats")) if bare else record


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors"])
def test_records_without_values_are_told(tmp_path, capsys, monkeypatch, kind):
    monkeypatch.setattr(_export, "Selection", _NoValues)
    monkeypatch.setattr(_NoValues, "_bare", ("bare",), raising=False)
    every = list(tdump.load_pass(PASS, as_="numpy").records())
    export(PASS, f"--{kind}", "-o", tmp_path / "none", status=1)
    text = capsys.readouterr()
    assert text.out == ""
    assert f"nothing was written: {len(every)} records without values left out (kept: meta+stats; level" in text.err
    assert list((tmp_path / "none").iterdir()) == []

    monkeypatch.setattr(_NoValues, "_bare", ("Critic",))
    export(PASS, f"--{kind}", "-o", tmp_path / "some")
    bare = sum(record.key.startswith("Critic") or record.bytes is None for record in every)
    assert f"{bare} records without values left out" in capsys.readouterr().out


def test_counts_are_singular_where_there_is_one(tmp_path, capsys):
    export(f"{PASS}:41/2/encoder.layer.0.dense@output#f32", "--npz", "-o", tmp_path)
    assert capsys.readouterr().out.startswith("1 tensor in 1 file in ")


def test_one_document_says_it(tmp_path, capsys):
    export(PASS, "--npy", "-o", tmp_path / "npy", "--no-color")
    words = capsys.readouterr().out.strip().replace(str(tmp_path / "npy"), str(tmp_path / "json"))
    export(PASS, "--npy", "-o", tmp_path / "json", "--json")
    said = json.loads(capsys.readouterr().out)
    assert (said["format"], said["output"]) == ("npy", str(tmp_path / "json"))
    assert words == "; ".join(filter(None, (said["written"], said["left_out"])))
    assert (said["damage"], said["status"]) == ([], 0)


def test_a_misspelt_name_gets_its_neighbours(tmp_path, capsys):
    export(f"{PASS}:41/2/encoder.layer.0.dens", "--npy", "-o", tmp_path, status=2)
    assert "Near: 'encoder.layer.0.dense'" in capsys.readouterr().err
    export(PASS, "--npy", "-o", tmp_path, "--select", "encodr.*dense$", status=2)
    assert "'encoder.layer.0.dense'" in capsys.readouterr().err
    export(PASS, "--npy", "-o", tmp_path, "--select", "zzz", status=2)
    assert "Near" not in capsys.readouterr().err
