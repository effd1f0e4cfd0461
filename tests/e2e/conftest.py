"""What every end-to-end test needs: the build tree, jobs under tdump-run, and the run directories they leave."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TDUMP_BUILD", SOURCE / "build"))
TDUMP_RUN = str(BUILD / "bin" / "tdump-run")
sys.path.insert(0, str(BUILD / "python"))

# The ranks of mpirun start so many seconds apart, as they may on a loaded machine: no test may depend on it.
SECONDS_APART = int(os.environ.get("TDUMP_TEST_SECONDS_APART", "0"))

# As little as possible is inherited: neither a launcher's variables nor tdump's.
_PREFIXES = ("OMPI_", "PMI", "SLURM_", "TDUMP_", "TORCHELASTIC_")
_NAMES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "LD_PRELOAD",
    "PYTHONPATH",
)


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(_PREFIXES) and k not in _NAMES}
    env.update(
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMP_NUM_THREADS="1",
        HF_HUB_OFFLINE="1",
    )
    env.update(extra or {})
    return env


def execute(
    command: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 240
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=clean_environment(env),
        timeout=timeout,
        capture_output=True,
        text=True,
        errors="backslashreplace",
    )


def mpirun(
    ranks: int,
    command: Sequence[str],
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout: float = 240,
) -> subprocess.CompletedProcess[str]:
    """``printed`` of the result: what each rank printed. In ``stdout`` mpirun may mix them within a line."""
    apart = Path(tempfile.mkdtemp(prefix="mpirun_", dir=cwd))
    launcher = [
        shutil.which("mpirun") or "mpirun",
        "--oversubscribe",
        "--output-filename",
        str(apart),
        "-n",
        str(ranks),
    ]
    if SECONDS_APART:
        launcher += ["sh", "-c", f'sleep $((OMPI_COMM_WORLD_RANK * {SECONDS_APART})); exec "$@"', "sh"]
    done = execute([*launcher, *command], cwd, env, timeout)
    done.printed = [path.read_text() for path in sorted(apart.glob("*/rank.*/stdout"))]
    shutil.rmtree(apart)
    return done


def last_verdict(printed: str) -> str:
    """``COMPLETE`` or ``INCOMPLETE``: of ranks that end far apart the last one gives the verdict anew."""
    verdicts = re.findall(r"^tdump: (COMPLETE|INCOMPLETE)\b", printed, re.MULTILINE)
    assert verdicts, f"no verdict in: {printed}"
    return verdicts[-1]


def captured(ranks: int, job: Sequence[str], config: str, where: Path) -> Path:
    """The run that so many ranks of a job that ends well leave in ``where``, which is made."""
    where.mkdir(parents=True)
    (where / "c.yaml").write_text(config)
    done = mpirun(ranks, [TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", *job], where)
    assert done.returncode == 0, done.stderr
    return where / "run"


@dataclass
class Run:
    """A run directory as a user sees it."""

    path: Path

    def ranks(self) -> dict[int, list[Path]]:
        """Process directories by rank."""
        found: dict[int, list[Path]] = {}
        for directory in sorted(self.path.glob("rank*_pid*")):
            found.setdefault(int(directory.name.split("_")[0][4:]), []).append(directory)
        return found

    def passes(self, rank: int) -> list[Path]:
        return sorted(p for directory in self.ranks().get(rank, []) for p in directory.glob("pass*.tdp"))


def latest(cwd: Path) -> Run:
    return Run((cwd / "outputs" / "latest").resolve())


def no_run(cwd: Path) -> bool:
    return not (cwd / "outputs").exists()


def beside_reference(job: list[str], config: str, cwd: Path):
    """What the job itself saw without tdump (`job reference`, which writes steps.pt), the passes of `job plain` with
    `config`, and the processes: the reference, the bare job, the job with tdump."""
    import tdump
    import torch

    (cwd / "c.yaml").write_text(config)
    reference = execute([*job, "reference", "steps.pt"], cwd)
    assert reference.returncode == 0, reference.stderr
    bare = execute([*job, "plain"], cwd)
    dumped = execute([TDUMP_RUN, "-c", "c.yaml", "--", *job, "plain"], cwd)
    assert dumped.returncode == 0, dumped.stderr
    passes = [tdump.load_pass(file) for file in latest(cwd).passes(0)]
    return torch.load(cwd / "steps.pt"), passes, (reference, bare, dumped)


@pytest.fixture
def python() -> str:
    return sys.executable


@pytest.fixture
def app(tmp_path: Path):
    """Writes a program; returns its path."""

    def write(text: str, name: str = "app.py") -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write
