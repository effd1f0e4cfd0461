"""Lints the direction of includes between the layers (docs/design.md, "Parts") and that the layers which a laptop builds
see no torch, CUDA, NCCL or MPI header. Exit status 1 and one line per offence."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Who may include whom. A layer may always include itself.
ALLOWED: dict[str, set[str]] = {
    "core": set(),
    "io": {"core"},
    "settings": {"core"},
    "filters": {"core", "settings"},
    "compare": {"core", "io", "settings"},
    "coordinator": {"core", "io"},
    "collectors": {"core"},
    "tools": {"core", "io", "settings", "filters", "compare", "coordinator"},
    "launch": {"core", "io", "settings", "filters", "coordinator"},
}
PLAIN_LAYERS = {"core", "io", "settings", "filters", "compare", "tools", "coordinator"}
HEAVY = re.compile(r"^(torch|ATen|c10|cuda|nccl|mpi)(/|_|\.h)", re.IGNORECASE)
# The one folder below the plain layers that may see MPI: the mpi transport, a shared object of its own.
HEAVY_EXCEPTIONS = ("coordinator/mpi/",)
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')


def offences(path: str, text: str) -> list[str]:
    """The includes in `text`, the source file `path` (relative to the root), that its layer may not have."""
    layer = path.split("/", 1)[0]
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match is None:
            continue
        target = match.group(1)
        other = target.split("/", 1)[0]
        if "/" in target and other in ALLOWED and other != layer and other not in ALLOWED[layer]:
            found.append(f"{path}:{number}: {layer}/ may not include {target}")
        if layer in PLAIN_LAYERS and not path.startswith(HEAVY_EXCEPTIONS) and HEAVY.match(target):
            found.append(f"{path}:{number}: {layer}/ may not see {target}")
    return found


def main() -> int:
    files = subprocess.run(
        ["git", "ls-files", "*.h", "*.cc", "*.c"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    found = []
    for name in files:
        if name.split("/", 1)[0] in ALLOWED:
            found += offences(name, (ROOT / name).read_text(encoding="utf-8"))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
