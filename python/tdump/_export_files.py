"""What the formats of tdump-export have in common: files that are there when they are whole, and names as text."""

from __future__ import annotations

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
