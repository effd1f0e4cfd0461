"""Whether a file of cases is what its program writes: `check_made.py PROGRAM FILE`.

Exit status 0 where it is, 1 where it is not, which names the first line, 77 without NumPy.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path


def main(program: str, file: str) -> int:
    if find_spec("numpy") is None:
        print(f"{program}: skipped, this Python has no NumPy", file=sys.stderr)
        return 77
    made = subprocess.run([sys.executable, program], stdout=subprocess.PIPE, text=True, check=True).stdout
    kept = Path(file).read_text(encoding="ascii")
    if kept == made:
        return 0
    pairs = itertools.zip_longest(kept.splitlines(), made.splitlines(), fillvalue="nothing")
    number, (old, new) = next((i, pair) for i, pair in enumerate(pairs, start=1) if pair[0] != pair[1])
    print(f"{file}: line {number} should be\n{new}\nand is\n{old}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
