"""PEP 517 backend of `pip install .`: builds with CMake and packs the wheel. It needs nothing but nanobind, and takes
that from the installing Python where it has it: nothing is downloaded there, with or without build isolation. What else
is needed is in setup/debian-packages.txt.

Installed below site-packages: tdump/ (Python package and extension modules, among them the collector for the torch that
the installing Python can import), tdump/bin (executables), tdump/lib/tdump (shared objects), tdump/share (recipes),
tdump/include. The commands on PATH are small scripts that exec tdump/bin/<name> (python/tdump_commands.py).

TDUMP_BUILD_DIR: a build tree to take, with the options it has; else build-wheel beside pyproject.toml is made.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

# pip's isolation works through these; a child without them sees the environment that is installed into.
_ISOLATION = ("PYTHONPATH", "PYTHONNOUSERSITE")
_TOML = "tomllib" if sys.version_info >= (3, 11) else "tomli"


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    missing = [] if _has_module("nanobind", _outer_environment()) else ["nanobind>=2"]
    return missing + ([] if _TOML == "tomllib" else ["tomli"])


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    return _describe(Path(metadata_directory)).name


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        _copy_python(tree)
        _install_compiled(tree / "tdump")
        name = f"{_describe(tree).stem}-{_tag()}.whl"
        _pack(tree, Path(wheel_directory) / name)
    return name


def _outer_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _ISOLATION}


def _has_module(name: str, environment: dict[str, str]) -> bool:
    probe = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is None)"
    return subprocess.run([sys.executable, "-c", probe], env=environment, check=False).returncode == 0


def _copy_python(tree: Path) -> None:
    shutil.copytree(ROOT / "python" / "tdump", tree / "tdump", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for module in ("tdump_autoload.py", "tdump_commands.py"):
        shutil.copy(ROOT / "python" / module, tree)


def _install_compiled(package: Path) -> None:
    environment = _outer_environment()
    if not _has_module("nanobind", environment):
        environment = dict(os.environ)  # it is in the isolated environment
    given = os.environ.get("TDUMP_BUILD_DIR")
    build = Path(given) if given else ROOT / "build-wheel"
    for command in (
        *([] if given else [_configure(build, environment)]),
        ["cmake", "--build", str(build), "--parallel", str(os.cpu_count() or 1)],
        ["cmake", "--install", str(build), "--prefix", str(package), "--strip"],
    ):
        subprocess.run(command, env=environment, check=True)
    # `cmake --install` makes a Python package of its own, for installations without pip; its modules are wanted here.
    python = package / "lib" / "tdump" / "python"
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    if not (python / "tdump" / f"_io{suffix}").exists():
        raise SystemExit(
            f"tdump: {build} was built for another Python than {sys.executable}: no tdump/_io{suffix} in it"
        )
    for module in (python / "tdump").glob("*.so"):
        module.replace(package / module.name)
    shutil.rmtree(python)
    (package / "bin" / "tdump-export").unlink()  # names the Python of the build; pip's own script takes its place


def _configure(build: Path, environment: dict[str, str]) -> list[str]:
    torch = _has_module("torch", environment)
    if not torch:
        print(f"tdump: {sys.executable} has no torch; the collectors for it are left out", file=sys.stderr)
    options = {
        "CMAKE_BUILD_TYPE": "Release",
        "TDUMP_PYTHON_EXECUTABLE": sys.executable,
        "TDUMP_PYTHON": "ON",
        "TDUMP_TORCH": "ON" if torch else "OFF",
        "TDUMP_MPI": "ON" if shutil.which("mpicc") else "OFF",
        "TDUMP_TESTS": "OFF",
        "TDUMP_EXAMPLES": "OFF",
    }
    ninja = shutil.which("ninja") and not (build / "CMakeCache.txt").exists()
    generator = ["-G", "Ninja"] if ninja else []
    return ["cmake", "-S", str(ROOT), "-B", str(build), *generator, *(f"-D{k}={v}" for k, v in options.items())]


def _tag() -> str:
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    abi = "cp" + (sysconfig.get_config_var("SOABI") or f"cpython-{python[2:]}").split("-")[1]
    return f"{python}-{abi}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def _describe(tree: Path) -> Path:
    """Writes the dist-info folder that pyproject.toml stands for."""
    project = importlib.import_module(_TOML).loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = tree / f"{project['name']}-{project['version']}.dist-info"
    folder.mkdir()
    metadata = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']['text']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {wanted}" for wanted in project["dependencies"]),
    ]
    entries = []
    for group, points in {"console_scripts": project["scripts"], **project["entry-points"]}.items():
        entries += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
    wheel = ["Wheel-Version: 1.0", "Generator: tdump", "Root-Is-Purelib: false", f"Tag: {_tag()}"]
    for name, lines in (("METADATA", metadata), ("entry_points.txt", entries), ("WHEEL", wheel)):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    shutil.copy(ROOT / "LICENSE", folder)
    return folder


def _pack(tree: Path, wheel: Path) -> None:
    files = sorted(file for file in tree.rglob("*") if file.is_file())
    (info,) = tree.glob("*.dist-info")
    record = []
    for file in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest()).rstrip(b"=").decode()
        record.append(f"{file.relative_to(tree).as_posix()},sha256={digest},{file.stat().st_size}")
    record.append(f"{info.name}/RECORD,,")
    (info / "RECORD").write_text("\n".join(record) + "\n", encoding="utf-8")
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in (*files, info / "RECORD"):
            archive.write(file, file.relative_to(tree).as_posix())
