"""Builds the C++ parts with CMake for `pip install .`: the tools, the runtime, and the collector for the torch that the
installing Python can import. Needs the Debian packages of setup/debian-packages.txt.

Installed tree, all below site-packages: tdump/ (Python package and extension modules), tdump/bin (executables), tdump/lib
(shared objects). The commands on PATH are small scripts that exec tdump/bin/<name> (python/tdump_commands.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


def has_torch() -> bool:
    """Whether the Python that installs (not pip's isolated build environment) can import torch."""
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    return subprocess.run([sys.executable, "-I", "-c", probe], check=False).returncode == 0


def has_mpi() -> bool:
    """Whether an MPI compiler wrapper is there; without one the mpi transport is left out."""
    return any((Path(part) / "mpicc").exists() for part in os.environ.get("PATH", "").split(os.pathsep))


class BuildWithCMake(build_py):
    """Copies the Python files, then installs the compiled parts beside them."""

    def run(self) -> None:
        super().run()
        build = Path(os.environ.get("TDUMP_BUILD_DIR", ROOT / "build-wheel"))
        prefix = Path(self.build_lib).resolve() / "tdump"
        # pip's isolation works through PYTHONPATH; the torch to build for is the one outside it.
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        configure = ["cmake", "-S", str(ROOT), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release"]
        configure += [
            f"-DTDUMP_PYTHON_EXECUTABLE={sys.executable}",
            f"-DTDUMP_TORCH={'ON' if has_torch() else 'OFF'}",
            f"-DTDUMP_MPI={'ON' if has_mpi() else 'OFF'}",
            "-DTDUMP_TESTS=OFF",
            "-DTDUMP_EXAMPLES=OFF",
        ]
        for command in (
            configure,
            ["cmake", "--build", str(build), "--parallel", str(os.cpu_count() or 1)],
            ["cmake", "--install", str(build), "--prefix", str(prefix), "--component", "tdump"],
        ):
            subprocess.run(command, env=env, check=True)


class PlatformDistribution(Distribution):
    """Marks the wheel as holding compiled code."""

    def has_ext_modules(self) -> bool:
        return True


setup(cmdclass={"build_py": BuildWithCMake}, distclass=PlatformDistribution)
