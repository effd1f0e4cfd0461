"""Every test that docs/faults.md names is there, and is built and run with the others."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAULTS = ROOT / "docs/faults.md"
FOLDERS = ("e2e", "gpu")  # of tests in Python
# Whole groups, and single cases, that are kept out for good: none may lose its row.
KEPT = set(
    re.findall(
        r"\S+",
        "B04 B06 B08 C01 C03 C04 C05 C07 D01 D03 D04 D06 D08 D09 D10 D11 D13 D15 D18 E01 E03 E06 E08 E10 E12 E13 E14 "
        "E16 E20 E21 E22 E26 E27 E28 F12 H05 H07 H10 H11 K03 K05 L01 L02",
    )
)


def rows(text: str) -> dict[str, list[str]]:
    """The names of tests by case, of the tables with four columns."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        cells = line.strip("| ").split(" | ")
        if len(cells) == 4 and re.fullmatch(r"[A-Z]\d\d", cells[0]):
            assert cells[0] not in found, f"{cells[0]} has two rows"
            found[cells[0]] = re.findall("`([^`]+)`", cells[3])
    return found


@cache
def cases_in_cxx() -> set[str]:
    """Of files that a CMakeLists.txt beside them builds."""
    found = set()
    for path in (ROOT / "tests").rglob("*_test.cc"):
        lists = path.parent / "CMakeLists.txt"
        if lists.exists() and re.search(rf"\b{path.stem}\b", lists.read_text(encoding="utf-8")):
            text = path.read_text(encoding="utf-8")
            found |= {f"{suite}.{case}" for suite, case in re.findall(r"\nTEST(?:_F|_P)?\((\w+),\s*(\w+)\)", text)}
    return found


def exists(name: str) -> bool:
    """``Suite.Case``, or ``test_file.py: test_function``."""
    if ": " not in name:
        return name in cases_in_cxx()
    file, function = name.split(": ")
    paths = [path for folder in FOLDERS if (path := ROOT / "tests" / folder / file).exists()]
    return any(f"\ndef {function}(" in path.read_text(encoding="utf-8") for path in paths)


def test_every_test_that_is_named_exists():
    named = rows(FAULTS.read_text(encoding="utf-8"))
    assert named.keys() >= KEPT
    for case, tests in named.items():
        assert tests, f"{case} names no test"
        assert [name for name in tests if not exists(name)] == [], case


def test_a_name_that_is_not_there_is_found():
    for there in (
        "Statistics.Float8HasARange",
        "StatisticsTargets.IntegersAreExact",
        "test_gradients.py: test_no_graph_is_kept_alive",
        "test_device.py: test_the_value_at_that_moment",
    ):
        assert exists(there), there
    for gone in (
        "Statistics.Float8HasAMean",
        "IntegersAreExact",
        "test_gradients.py: test_no_graph",
        "test_gradients.py: reference",
        "test_no_such_file.py: test_no_graph_is_kept_alive",
        "conftest.py: test_no_graph_is_kept_alive",
    ):
        assert not exists(gone), gone


def test_rows_are_read_to_their_end():
    text = "| Case | Tests |\n|---|---|\n| A01 | a#1 | `x` holds | `B.C`<br>`d.py: test_e` |\n| A03 | b | c | none |\n| A03 | left |"
    assert rows(text) == {"A01": ["B.C", "d.py: test_e"], "A03": []}
