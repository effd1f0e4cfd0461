"""Finds what is measured: the build tree and the Python whose torch it was built for."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
JOBS = ROOT / "bench" / "jobs"

# As little as possible is inherited: neither a launcher's variables nor tdump's.
_PREFIXES = ("OMPI_", "PMI", "SLURM_", "TDUMP_", "TORCHELASTIC_")
_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LD_PRELOAD")


class BuildError(Exception):
    """There is nothing to measure; says what to do."""


@dataclass
class Build:
    path: Path
    python: str  # an interpreter that imports the torch of the build

    @staticmethod
    def find() -> Build:
        path = Path(os.environ.get("TDUMP_BUILD") or ROOT / "build").resolve()
        if not (path / "bin" / "tdump-run").exists():
            raise BuildError(f"no build in {path}: run ./check or ./demo once, or name one in TDUMP_BUILD")
        cache = (path / "CMakeCache.txt").read_text(encoding="utf-8")
        found = re.search(r"^TDUMP_PYTHON_EXECUTABLE:\w+=(.+)$", cache, re.M)
        if found is None:
            raise BuildError(f"the build in {path} is one without LibTorch: configure it with TDUMP_TORCH=ON")
        return Build(path, found.group(1))

    def tool(self, name: str) -> str:
        return str(self.path / "bin" / name)

    def job(self, name: str) -> str:
        """A program of bench/jobs."""
        path = self.path / "bench" / name
        if not path.exists():
            raise BuildError(f"{path} is not built: cmake --build {self.path}")
        return str(path)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of every measured process: one thread, nothing of a launcher."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(_PREFIXES) and k not in _NAMES}
    env.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    env.update(extra or {})
    return env
