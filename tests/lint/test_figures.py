"""The README shows no figure that docs/performance.md does not have."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def table(page: str, section: str) -> dict[str, str]:
    """Row name -> the cell beside it, of the first table of the section."""
    text = (ROOT / page).read_text(encoding="utf-8").split(f"\n## {section}\n", 1)[1]
    lines = [line for line in text.split("\n## ", 1)[0].splitlines() if line.startswith("|")]
    return {cells[1].strip(): cells[2].strip() for line in lines[2:] if (cells := line.split("|"))}


def test_figures_of_the_readme_were_measured():
    measured = table("docs/performance.md", "Results")
    shown = table("README.md", "What it costs")
    assert len(shown) >= 3
    assert {name: measured.get(name) for name in shown} == shown
