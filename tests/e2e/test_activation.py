"""Who activates: which processes of a job are ranks, under which number, and which directories exist afterwards."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import BUILD, TDUMP_RUN, Run, execute, latest, no_run

# A model that any process may run: three lines of work, one step.
MODEL = """
import torch

def step():
    torch.manual_seed(0)
    with torch.no_grad():
        return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())(torch.ones(2, 4))
"""
ALONE = MODEL + "step()\nprint('ran')\n"


def only_run(cwd: Path) -> Run:
    """The one run below outputs/, which latest points to."""
    names = sorted(path.name for path in (cwd / "outputs").iterdir())
    assert len(names) == 2 and names[0] == "latest", names
    return latest(cwd)


def assert_ranks(cwd: Path, stderr: str, world: int, passes: int = 1) -> None:
    """Exactly the ranks of the world wrote, a process each, and rank 0 said once how many they are."""
    run = only_run(cwd)
    assert {rank: len(processes) for rank, processes in run.ranks().items()} == dict.fromkeys(range(world), 1)
    assert [len(run.passes(rank)) for rank in range(world)] == [passes] * world
    said = re.findall(r"tdump: on, (\d+) rank", stderr)
    assert said == [str(world)], stderr


def test_bash_then_python(tmp_path, app, python):
    job = app(ALONE)
    script = f"echo begin | cat; ({python} -c 'import sys'); {python} {job}; ls | wc -l > count"
    done = execute([TDUMP_RUN, "--dump", "--", "bash", "-c", script], tmp_path)
    assert (done.returncode, done.stdout) == (0, "begin\nran\n"), done.stderr
    assert_ranks(tmp_path, done.stderr, 1)


def torchrun(python: str, job: str, *options: str) -> list[str]:
    return [python, "-m", "torch.distributed.run", "--standalone", *options, "--nproc-per-node", "2", job]


SLURM = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NTASKS": "1",
    "SLURM_STEP_NUM_TASKS": "1",
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_NODEID": "0",
}


@pytest.mark.parametrize("around", [{}, SLURM], ids=["alone", "slurm around it"])
def test_torchrun_agent_and_two_workers(tmp_path, app, python, around):
    done = execute([TDUMP_RUN, "--dump", "--", *torchrun(python, app(ALONE))], tmp_path, around)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ran") == 2
    assert_ranks(tmp_path, done.stderr, 2)


SPAWN = (
    MODEL
    + """
import sys, torch.distributed as dist, torch.multiprocessing as mp

def worker(rank, world, store):
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=world)
    step()
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(worker, args=(4, sys.argv[1]), nprocs=4)
    print("ran")
"""
)


def test_spawned_gloo_ranks_without_any_variable(tmp_path, app, python):
    done = execute([TDUMP_RUN, "--dump", "--", python, app(SPAWN), str(tmp_path / "store")], tmp_path)
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    assert_ranks(tmp_path, done.stderr, 4)


LOADER = (
    MODEL
    + """
import sys
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return step() + index        # modules and operators in the worker, too

if __name__ == "__main__":
    early = sys.argv[2] == "early"   # do the workers run before the first step of the job?
    if not early:
        step()
    total = sum(float(batch.sum()) for batch in DataLoader(Rows(), num_workers=2, multiprocessing_context=sys.argv[1]))
    if early:
        step()
    print(f"{total:.3f}")
"""
)


@pytest.mark.parametrize("start, when", [("fork", "late"), ("spawn", "late"), ("fork", "early")])
def test_data_loader_workers_are_no_ranks(tmp_path, app, python, start, when):
    command = [python, app(LOADER), start, when]
    done = execute([TDUMP_RUN, "--dump", "--", *command], tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\d+\.\d{3}\n", done.stdout)
    assert_ranks(tmp_path, done.stderr, 1)


HELPER = (
    MODEL
    + """
import subprocess, sys
step()
helper = "import torch; print(float(torch.nn.Linear(1, 1, bias=False)(torch.zeros(1, 1))))"
print(subprocess.run([sys.executable, "-c", helper], capture_output=True, text=True, check=True).stdout, end="")
"""
)


def test_a_helper_that_runs_torch_is_no_rank(tmp_path, app, python):
    done = execute([TDUMP_RUN, "--dump", "--", python, app(HELPER)], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout in ("0.0\n", "-0.0\n")
    assert_ranks(tmp_path, done.stderr, 1)


def test_python_without_torch_leaves_nothing(tmp_path, python):
    done = execute([TDUMP_RUN, "--dump", "--", python, "-c", "import json; print('ran')"], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
    assert no_run(tmp_path)


def test_importing_torch_alone_leaves_nothing(tmp_path, python):
    done = execute([TDUMP_RUN, "--dump", "--", python, "-c", "import torch; print('ran')"], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
    assert no_run(tmp_path)


@pytest.mark.parametrize("way", ["-I", "TORCH_DEVICE_BACKEND_AUTOLOAD"])
def test_torch_past_tdump_is_told(tmp_path, app, python, way):
    """Isolated mode ignores PYTHONPATH; the variable keeps torch from loading what registered with it."""
    option, env = ([way], {}) if way.startswith("-") else ([], {way: "0"})
    done = execute([TDUMP_RUN, "--dump", "--", python, *option, app(ALONE)], tmp_path, env)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert done.stderr.count("tdump was not loaded with it: nothing of it is recorded") == 1, done.stderr
    assert way in done.stderr
    assert no_run(tmp_path)


def test_python_alone(tmp_path, app, python):
    done = execute([TDUMP_RUN, "--dump", "--", python, app(ALONE)], tmp_path)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert_ranks(tmp_path, done.stderr, 1)


# ---- the environment alone, without tdump-run ----


def bare(python: str, job: str, cwd: Path, **variables: str):
    return execute([python, job], cwd, {"PYTHONPATH": str(BUILD / "python"), **variables})


def test_a_directory_in_the_environment_is_enough(tmp_path, app, python):
    done = bare(python, app(ALONE), tmp_path, TDUMP_DIR="dumped/here", TDUMP_FILTER="^0$")
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    assert "run dumped/here (generation 0), config defaults\n" in done.stderr
    run = Run(tmp_path / "dumped/here")
    assert len(run.passes(0)) == 1

    import tdump

    assert list(tdump.load_pass(run.passes(0)[0])) == ["0"]


def test_a_config_in_the_environment_is_enough(tmp_path, app, python):
    (tmp_path / "c.yaml").write_text("output: {dir: from_yaml}\ncapture: [{name: '^0$'}]\n")
    done = bare(python, app(ALONE), tmp_path, TDUMP_CONFIG="c.yaml", TDUMP_FILTER="^1$")
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    assert "run from_yaml (generation 0), config c.yaml\n" in done.stderr

    import tdump

    assert list(tdump.load_pass(Run(tmp_path / "from_yaml").passes(0)[0])) == ["1"]


def test_a_predicate_in_the_environment_is_enough(tmp_path, app, python):
    app("def wanted(name, module): return type(module).__name__ == 'ReLU'\n", "wanted.py")
    done = bare(python, app(ALONE), tmp_path, TDUMP_DIR="run", TDUMP_FILTER_FN="wanted.py:wanted")
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr

    import tdump

    assert list(tdump.load_pass(Run(tmp_path / "run").passes(0)[0])) == ["1"]


@pytest.mark.parametrize("off", [{}, {"TDUMP_DIR": "run", "TDUMP_DISABLE": "1"}], ids=["not asked for", "disabled"])
def test_off_is_off(tmp_path, app, python, off):
    done = bare(python, app(ALONE), tmp_path, **off)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
    assert not (tmp_path / "run").exists() and no_run(tmp_path)


WRONG = {
    "a missing file": {"TDUMP_CONFIG": "no.yaml"},
    "steps": {"TDUMP_DIR": "run", "TDUMP_STEPS": "x"},
    "text for the handed-over config": {"TDUMP_EFFECTIVE": "a,b: ["},
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_cannot_stop_the_job_and_is_told(tmp_path, app, python, case):
    done = bare(python, app(ALONE), tmp_path, **WRONG[case])
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert done.stderr.startswith("tdump: off, the configuration is wrong:\n") and len(done.stderr) < 1000
    assert no_run(tmp_path) and not (tmp_path / "run").exists()


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "a: |\n  x\n y: !<\n- z: >9\n"])
def test_malformed_yaml_cannot_stop_the_job_and_is_told(tmp_path, app, python, text):  # K03, K05
    (tmp_path / "c.yaml").write_text(text)
    done = bare(python, app(ALONE), tmp_path, TDUMP_CONFIG="c.yaml")
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr[-2000:]
    first, told = done.stderr.splitlines()[:2]
    assert first == "tdump: off, the configuration is wrong:" and len(done.stderr) < 1000
    assert re.match(r"c\.yaml:[1-3]:\d+: ", told.strip()), told
    assert no_run(tmp_path)


def test_no_value_of_a_variable_changes_the_job(tmp_path, python):
    done = execute(
        [python, Path(__file__).parent / "jobs/hostile_environment.py"], tmp_path, {"PYTHONPATH": str(BUILD / "python")}
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-2000:]
    assert not [line[:200] for line in done.stderr.splitlines() if len(line) > 5000]  # a path may be long
