"""A LibTorch collector that was built for another torch, or another tdump, stays out: the job runs, and both the user
and the coverage are told what to do."""

from __future__ import annotations

import shutil
import sys

import pytest
from conftest import BUILD, execute, latest

MODEL = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(2, 2)
print(model(torch.ones(1, 2)).tolist())
"""
FORGED = {
    "another torch": ("torch 2.99.0\nabi 1\nstamp {stamp}\n", "is built for torch 2.99.0", "pip install"),
    "another ABI": ("torch {torch}\nabi 0\nstamp {stamp}\n", "C++11 ABI 0", "pip install"),
    "another tdump": (
        "torch {torch}\nabi 1\nstamp 0000000000000001\n",
        "another build of tdump",
        "install tdump again",
    ),
    "no stamp": (None, "no LibTorch collector is installed", ""),
}


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """A copy of the build tree, for its stamp to be forged."""
    root = tmp_path_factory.mktemp("forged") / "tdump"
    (root / "bin").mkdir(parents=True)
    for tool in ("tdump-run", "tdump-view"):
        if (BUILD / "bin" / tool).exists():
            shutil.copy(BUILD / "bin" / tool, root / "bin")
    shutil.copytree(BUILD / "lib", root / "lib")
    shutil.copytree(BUILD / "python", root / "python", symlinks=True)
    return root


def stamp():
    return dict(line.split(maxsplit=1) for line in (BUILD / "lib" / "libtdump_torch.info").read_text().splitlines())


@pytest.fixture(scope="module", params=["python", "c++"])
def job(request, tmp_path_factory):
    """A command and what it does without tdump."""
    cwd = tmp_path_factory.mktemp("bare")
    app = BUILD / "bin" / "examples" / "tp_transformer"
    command = [str(app), "--steps", "1"]
    if request.param == "python":
        (cwd / "app.py").write_text(MODEL)
        command = [sys.executable, str(cwd / "app.py")]
    elif not app.exists():
        pytest.skip("built without examples or MPI")
    bare = execute(command, cwd)
    assert bare.returncode == 0, bare.stderr
    return command, bare.stdout


@pytest.mark.parametrize("forgery", FORGED)
def test_the_job_runs_and_is_told(installation, job, tmp_path, forgery):
    import tdump

    text, told, remedy = FORGED[forgery]
    info = installation / "lib" / "libtdump_torch.info"
    info.unlink(missing_ok=True)
    if text is not None:
        info.write_text(text.format(**stamp()))
    command, printed = job
    under = execute([installation / "bin" / "tdump-run", "--dump", "--", *command], tmp_path)
    assert (under.returncode, under.stdout) == (0, printed)
    lines = [line for line in under.stderr.splitlines() if line.startswith("tdump: ") and told in line]
    assert len(lines) == 1 and remedy in lines[0] and "nothing of torch is captured" in lines[0], under.stderr
    run = latest(tmp_path)
    assert sorted(run.ranks()) == [0]
    assert sum(len(list(tdump.load_pass(file).records())) for file in run.passes(0)) == 0
    coverage = execute([installation / "bin" / "tdump-view", str(run.path), "--coverage"], tmp_path)
    assert told in coverage.stdout and remedy in coverage.stdout, coverage.stdout
