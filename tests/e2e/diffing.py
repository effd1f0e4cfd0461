"""tdump-diff of two runs, as a document or as a reader sees it."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import BUILD, SOURCE, execute

TDUMP_DIFF = str(BUILD / "bin" / "tdump-diff")


def diff(a: Path, b: Path, *options: str, status: int) -> dict:
    done = execute([TDUMP_DIFF, a, b, "--json", *options], SOURCE)
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(done.stdout)


def said(a: Path, b: Path, *options: str, status: int) -> str:
    done = execute([TDUMP_DIFF, a, b, *options], SOURCE)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def rows(a: Path, b: Path, lines: Path, *options: str) -> list[dict]:
    """Every pair and every record without one."""
    done = execute([TDUMP_DIFF, a, b, "--quiet", "--jsonl", lines, *options], SOURCE)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [json.loads(line) for line in lines.read_text().splitlines()]


def where(report: dict) -> tuple[str, int, int]:
    """Operator, rank and step of the origin."""
    assert report["origin"], report["summary"]
    return report["origin"]["name"], report["origin"]["rank"], report["origin"]["step"]
