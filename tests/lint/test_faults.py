"""Every test that docs/faults.md names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def named() -> list[str]:
    rows = [
        line for line in (ROOT / "docs/faults.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")
    ]
    cells = [row.split(" | ")[3] for row in rows if not row.startswith("| Case")]
    return [name for cell in cells for name in re.findall("`([^`]+)`", cell)]


def missing(name: str) -> bool:
    if ": " in name:
        file, function = name.split(": ")
        return f"def {function}(" not in (ROOT / "tests/e2e" / file).read_text(encoding="utf-8")
    suite, case = name.split(".")
    pattern = re.compile(rf"TEST(_F|_P)?\({suite},\s*{case}\)")
    return not any(pattern.search(path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("*_test.cc"))


def test_every_test_that_is_named_exists():
    names = named()
    assert len(names) > 60
    assert [name for name in names if missing(name)] == []
