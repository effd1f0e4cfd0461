"""What is installed works without the build tree: with pip in a fresh environment, and with cmake --install."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TDUMP_BUILD", SOURCE / "build"))
CONFIG = "steps: all\ncapture: [{name: '0$', level: full}]\n"
APP = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
torch.nn.init.ones_(model[0].weight); torch.nn.init.zeros_(model[0].bias)
with torch.no_grad():
    print(model(torch.arange(4.0)).tolist())
"""
READ = """
import sys, tdump
run = tdump.open(sys.argv[1])
print({name: tensor.tolist() for name, tensor in run[0, 0].items()})
"""


def run(*command, cwd: Path, path: Path | None = None, **variables: str) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("TDUMP_") and k not in ("PYTHONPATH", "LD_PRELOAD")}
    env.update(OMP_NUM_THREADS="1", **variables)
    if path is not None:
        env["PATH"] = f"{path}{os.pathsep}{env['PATH']}"
        # A program of the fresh environment, never one of the same name elsewhere.
        command = (shutil.which(str(command[0]), path=str(path)) or command[0], *command[1:])
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> Path:
    """A fresh virtual environment with tdump from pip. It sees this Python's packages (torch, nanobind), and no network."""
    root = tmp_path_factory.mktemp("pip")
    run(sys.executable, "-m", "venv", root / "venv", cwd=root)
    python = root / "venv" / "bin" / "python"
    here = sysconfig.get_paths()["purelib"]
    there = run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])", cwd=root).strip()
    Path(there, "other_packages.pth").write_text(here + "\n")
    install = [python, "-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check", "-q", SOURCE]
    run(*install, cwd=root, TDUMP_BUILD_DIR=str(BUILD))
    return root / "venv" / "bin"


def test_pip_puts_every_tool_on_path(environment, tmp_path):
    metadata = configparser.ConfigParser()
    (file,) = environment.parent.glob("lib/python*/site-packages/tdump-*.dist-info/entry_points.txt")
    metadata.read(file)
    tools = sorted(p.name for p in (file.parents[1] / "tdump" / "bin").iterdir())
    assert sorted(metadata["console_scripts"]) == sorted([*tools, "tdump-export"])
    for tool in metadata["console_scripts"]:
        assert tool in run(tool, "--help", cwd=tmp_path, path=environment)
    assert "minimal" in run("tdump-run", "--recipes", cwd=tmp_path, path=environment)


def test_the_environment_variables_alone_capture(environment, tmp_path):
    (tmp_path / "app.py").write_text(APP)
    plain = run("python", "app.py", cwd=tmp_path, path=environment)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["app.py"]
    said = run("python", "app.py", cwd=tmp_path, path=environment, TDUMP_DIR="x", TDUMP_FILTER='["^0$"]')
    assert said == plain == "[6.0, 6.0, 6.0]\n"
    assert run("python", "-c", READ, "x", cwd=tmp_path, path=environment) == "{'0': [6.0, 6.0, 6.0]}\n"


def test_tdump_run_captures_and_the_tools_read(environment, tmp_path):
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "tdump.yaml").write_text(CONFIG)
    for name in ("a", "b"):
        run("tdump-run", "-c", "tdump.yaml", "-o", name, "--", "python", "app.py", cwd=tmp_path, path=environment)
    assert "COMPLETE" in run("tdump-view", "a", cwd=tmp_path, path=environment)
    assert "SAME" in run("tdump-diff", "a", "b", cwd=tmp_path, path=environment)


def test_cmake_install_and_a_consumer(tmp_path):
    torch_root = run(sys.executable, "-c", "import torch; print(torch.__path__[0])", cwd=tmp_path).strip()
    prefix = tmp_path / "prefix"
    run("cmake", "--install", BUILD, "--prefix", prefix, cwd=tmp_path)
    build = tmp_path / "consumer"
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DTORCH_ROOT={torch_root}", "-DCMAKE_BUILD_TYPE=Release"]
    if shutil.which("ccache"):
        options.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    run("cmake", "-S", SOURCE / "tests" / "install" / "consumer", "-B", build, *options, cwd=tmp_path)
    run("cmake", "--build", build, cwd=tmp_path)
    plain = run(build / "consumer", cwd=tmp_path)
    assert plain == "6\n12\n"
    (tmp_path / "tdump.yaml").write_text("steps: all\ncapture: [{role: [output], level: full}]\n")
    tools = prefix / "bin"
    command = ["tdump-run", "-c", "tdump.yaml", "-o", "out", "--", build / "consumer"]
    assert run(*command, cwd=tmp_path, path=tools) == plain
    names = run("tdump-view", "out", "--names", cwd=tmp_path, path=tools)
    assert "doubled" in names
    python = str(prefix / "lib" / "tdump" / "python")
    read = run(sys.executable, "-c", READ, "out", cwd=tmp_path, PYTHONPATH=python)
    assert "[0.0, 2.0, 4.0]" in read
    run("tdump-export", "out", "--npy", "-o", "arrays", cwd=tmp_path, path=tools)
    assert "doubled" in (tmp_path / "arrays" / "names.tsv").read_text()
