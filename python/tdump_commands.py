"""The commands that `pip install` puts on PATH: each execs the program of its own name in tdump/bin."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn


def main() -> NoReturn:
    """Replaces this process by tdump/bin/<name this script was called by>."""
    name = Path(sys.argv[0]).name
    package = Path(find_spec("tdump").origin).parent
    program = package / "bin" / name
    os.execv(program, [str(program), *sys.argv[1:]])
