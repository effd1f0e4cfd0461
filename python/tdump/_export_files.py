"""What the formats of tdump-export have in common: files that are there when they are whole, and names as text."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Gives the name to write under. The file gets its own when the block ends, and is gone when that fails."""
    part = path.with_name(path.name + ".part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def utf8(name: str) -> str:
    """Names may hold bytes that are no UTF-8 (as surrogates): they become ``\\udcNN``."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def plural(count: int, noun: str) -> str:
    """``1 tensor``, ``1,412 tensors``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def near_names(asked: str, names: set[str], most: int = 3) -> list[str]:
    """The names that come nearest to a pattern or key which is none of them, best first."""
    words = set(re.findall(r"[a-z0-9_]+", asked.split("@")[0].lower()))
    plain = ".".join(re.findall(r"[A-Za-z0-9_]+", asked.split("@")[0]))

    def likeness(name: str) -> tuple[float, float]:
        parts = re.findall(r"[a-z0-9_]+", name.lower())
        shared = sum(bool(difflib.get_close_matches(word, parts, 1, 0.7)) for word in words)
        return shared / max(1, len(words)), difflib.SequenceMatcher(None, plain, name).ratio()

    ranked = sorted(((likeness(name), name) for name in sorted(names)), key=lambda pair: pair[0], reverse=True)
    return [name for (shared, ratio), name in ranked[:most] if shared >= 0.5 or ratio >= 0.6]
