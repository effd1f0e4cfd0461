"""bench/run --quick measures every row, and says so in a table and in JSON. What the figures are is not looked at."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parents[2] / "bench" / "run"
FIELDS = {"group", "name", "value", "unit", "better", "against", "must", "aim", "met"}
ROWS = {  # name: must, aim
    "MiniLM, leaf outputs full": (1.12, 1.05),
    "the same, CPU of the calling thread": (1.06, 1.02),
    "MiniLM, leaf outputs stats": (1.12, 1.05),
    "MiniLM, leaf outputs hash": (1.08, 1.04),
    "MiniLM, ATen outputs full": (1.5, 1.25),
    "forward hooks and torch.save": (None, None),
    "msprobe, API outputs": (None, None),
    "training, leaves and gradients full": (1.25, 1.12),
    "armed, step not wanted": (1.01, 1.0),
    "loaded, rank not selected": (1.0, None),
    "plain step twice": (None, None),
    "tap of a 256-byte tensor": (1.0, 0.3),
    "rejected ATen operator": (1.3, 1.1),
    "sustained writing, rate": (0.9, 0.97),
    "one file a node, rate": (None, None),
    "resident memory, arena of 256 MiB": (320, None),
    "the same, large tensors mapped one by one": (None, None),
    "statistics, float32": (4, 8),
    "statistics, bfloat16": (8, 16),
    **{
        f"estimate of {what}, {job}": (None, None)
        for what in ("bytes", "the step")
        for job in (
            "MiniLM, leaf outputs full",
            "MiniLM, leaf outputs stats",
            "MiniLM, ATen outputs full",
            "training, leaves and gradients full",
        )
    },
}
COMPARE_ROWS = {
    "all metrics of two bfloat16 runs": (5, 15),
    "runs of equal hashes": (0.01, None),
    "peak memory of that diff": (512, None),
    "equal runs, every byte read": (1, 3),
    "1,024 ranks x 20 steps x 1,500 records": (60, 15),
    "peak memory of that diff, many ranks": (2048, None),
    "1 rank against 1,024, one step of 1,500 records": (60, None),
    "peak memory of that diff, ranks put together": (512, None),
    "1 rank against 1,024, with values of 32 bytes": (120, None),
    "peak memory of that diff, copies with values": (512, None),
}
MODES_ROWS = {
    name.format(shape): bounds
    for shape in ("8 x 128", "1 x 32")
    for name, bounds in {
        "compiled, taps not wanted, {}": (1.005, None),
        "the same, {}, with what fusion it costs": (1.1, None),
        "compiled, taps off, {}": (1.0, None),
        "compiled, leaf outputs full, {}": (1.3, 1.2),
    }.items()
}
ELSEWHERE = {"msprobe, API outputs"}  # not run where msprobe is not installed


def run(*words):
    return subprocess.run([sys.executable, str(RUN), *words], capture_output=True, text=True)


@pytest.mark.parametrize(("group", "expected"), [("engine", ROWS), ("compare", COMPARE_ROWS), ("modes", MODES_ROWS)])
def test_every_row_is_measured(tmp_path, group, expected):
    done = run("--quick", "--only", group, "--json", str(tmp_path / "rows.json"), "--work", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["name"]: row for row in json.loads((tmp_path / "rows.json").read_text())}
    assert {name: (row["must"], row["aim"]) for name, row in rows.items()} == expected
    for name, row in rows.items():
        assert row.keys() >= FIELDS
        assert row["group"] == group and row["better"] in ("lower", "higher")
        assert any(line.startswith(name) for line in done.stdout.splitlines())
        if name in ELSEWHERE and row["value"] is None:
            assert row["met"] is None and "not run" in row["note"]
            continue
        assert math.isfinite(row["value"]) and 0 < row["value"] < 1000, row
        assert (row["met"] is None) == (row["must"] is None)
        if row["interval"]:
            low, high = row["interval"]
            assert 0 < low <= row["value"] <= high
    assert list(tmp_path.iterdir()) == [tmp_path / "rows.json"]


def test_a_group_that_is_not_there_names_those_that_are():
    done = run("--only", "engin")
    assert done.returncode == 2
    assert "engin: no such group; there is engine, compare, modes" in done.stderr


def test_without_a_build_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("TDUMP_BUILD", str(tmp_path))
    done = run("--quick")
    assert done.returncode == 2
    assert done.stderr == (
        f"bench/run: no build in {tmp_path}: run ./check or ./demo once, or name one in TDUMP_BUILD\n"
    )
