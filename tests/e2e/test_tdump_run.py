"""tdump-run as a process: it becomes the job, and fails once and clearly when it cannot."""

from __future__ import annotations

import re
import signal
import subprocess

import pytest
import yaml
from conftest import TDUMP_RUN, clean_environment, execute, mpirun, no_run


def run(cwd, *words, env=None):
    return execute([TDUMP_RUN, *words], cwd, env)


@pytest.mark.parametrize("status", [0, 1, 3, 125, 255])
def test_exit_status_is_the_commands_own(tmp_path, status):
    assert run(tmp_path, "--dump", "--", "sh", "-c", f"exit {status}").returncode == status


def test_signal_is_the_commands_own(tmp_path):
    assert run(tmp_path, "--dump", "--", "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM


def test_the_command_has_the_same_pid(tmp_path):
    process = subprocess.Popen(
        [TDUMP_RUN, "--dump", "--", "sh", "-c", "echo $$"],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    out, _ = process.communicate(timeout=60)
    assert int(out) == process.pid


def test_not_found_is_127_and_not_executable_is_126(tmp_path):
    missing = run(tmp_path, "--dump", "--", "no-such-command")
    assert missing.returncode == 127
    assert missing.stderr == "tdump-run: cannot start 'no-such-command': No such file or directory; is it in PATH?\n"
    (tmp_path / "data").write_text("no program")
    denied = run(tmp_path, "--dump", "--", "./data")
    assert denied.returncode == 126
    assert denied.stderr == "tdump-run: cannot start './data': Permission denied\n"


def test_a_job_that_uses_no_torch_leaves_nothing_behind(tmp_path):
    done = run(tmp_path, "--dump", "--", "sh", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == ("out\n", "err\n")
    assert no_run(tmp_path)


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "no COMMAND"),
        (["--dmup", "--", "true"], "--dmup"),
        (["-c", "missing.yaml", "--", "true"], "missing.yaml"),
        (["--recipe", "nonesuch", "--", "true"], "nonesuch"),
        (["--set", "memory.hots=1", "--", "true"], "memory.host"),
        (["--steps", "x", "--", "true"], "x"),
    ],
)
def test_its_own_failures_are_125_with_the_reason(tmp_path, words, message):
    failed = run(tmp_path, *words)
    assert failed.returncode == 125
    assert message in failed.stderr and failed.stderr.startswith("tdump-run: ")


WRONG = {
    "misspelt key": ("steps: 0-1\ncaptrue: []\n", "c.yaml:2:1", "capture"),
    "bad regex": ("capture:\n  - {name: 'a(b'}\n", "c.yaml:2:", "a(b"),
    "duplicate key": ("steps: 0-1\nsteps: 0-2\n", "c.yaml:2:1", "steps"),
    "rank out of range": ("ranks: 0-7\n", "c.yaml:1:", "7"),
    "missing predicate file": (
        "capture:\n  - {where: '/no/such.py:f'}\n",
        "c.yaml:2:",
        "/no/such.py",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_config_is_told_once_by_four_ranks(tmp_path, case):
    text, place, word = WRONG[case]
    (tmp_path / "c.yaml").write_text(text)
    for _ in range(20 // len(WRONG)):
        failed = mpirun(4, [TDUMP_RUN, "-c", "c.yaml", "--", "sh", "-c", "touch started"], tmp_path)
        assert failed.returncode == 125
        lines = [line for line in failed.stderr.splitlines() if place in line]
        assert len(lines) == 1 and word in lines[0], failed.stderr
        assert not (tmp_path / "started").exists()


MALFORMED = {  # K03 and its like
    "brackets": ("[" * 100_000, r"1:\d+: nested deeper than 64 levels"),
    "keys": ("{a: " * 100_000, r"1:\d+: nested deeper than 64 levels"),
    "open list": ("steps: 0-1\nranks: [1, 2\n", r"[23]:\d+: "),
    "open quotes": ("steps: '0-1\n", "1:8: not YAML: a quote that is not closed"),
    "tab": ("capture:\n\t- {name: x}\n", r"2:\d+: "),
    "alias of nothing": ("steps: *nothing\n", r"1:\d+: "),
    "mix of tag, block and dedent": ("a: |\n  x\n y: !<\n- z: >9\n", r"\d+:\d+: "),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_yaml_is_told_with_its_place(tmp_path, case):
    text, place = MALFORMED[case]
    (tmp_path / "c.yaml").write_text(text)
    for words, status in ((["--check"], 2), (["--explain", "norm"], 2), (["--", "touch", "started"], 125)):
        failed = run(tmp_path, "-c", "c.yaml", *words)
        assert failed.returncode == status and re.search("^c.yaml:" + place, failed.stderr, re.M), failed.stderr
    assert not (tmp_path / "started").exists()


def test_a_wrong_config_of_one_program_of_two_is_told(tmp_path):
    (tmp_path / "c.yaml").write_text("captrue: []\n")
    failed = execute(
        [
            "mpirun",
            "--oversubscribe",
            "-n",
            "1",
            "sleep",
            "20",
            ":",
            "-n",
            "2",
            TDUMP_RUN,
            "-c",
            "c.yaml",
            "--",
            "true",
        ],
        tmp_path,
    )
    assert failed.returncode == 125
    assert failed.stderr.count("captrue") == 1


def test_mpirun_messages_and_status_come_through(tmp_path):
    # As root without the permission to be; tdump-run adds no flag.
    env = clean_environment()
    del env["OMPI_ALLOW_RUN_AS_ROOT"], env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"]
    command = ["mpirun", "-n", "4", "true"]
    bare = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    under = subprocess.run([TDUMP_RUN, "--dump", "--", *command], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (under.returncode, under.stdout, under.stderr) == (
        bare.returncode,
        bare.stdout,
        bare.stderr,
    )


def test_check_prints_nothing_and_says_by_status(tmp_path):
    (tmp_path / "right.yaml").write_text("steps: 0-1\nranks: [1, 3]\n")
    assert run(tmp_path, "-c", "right.yaml", "--check").returncode == 0
    assert run(tmp_path, "-c", "right.yaml", "--check", "--ranks", "4").returncode == 0
    too_few = run(tmp_path, "-c", "right.yaml", "--check", "--ranks", "3")
    assert too_few.returncode == 2 and "right.yaml:2:" in too_few.stderr
    (tmp_path / "wrong.yaml").write_text("stpes: 0-1\n")
    wrong = run(tmp_path, "-c", "wrong.yaml", "--check")
    assert wrong.returncode == 2 and "wrong.yaml:1:1" in wrong.stderr and "steps" in wrong.stderr


def test_print_shows_the_config_in_force_and_the_environment(tmp_path):
    (tmp_path / "c.yaml").write_text("steps: 0-1\n")
    shown = run(tmp_path, "-c", "c.yaml", "--steps", "5", "--print")
    assert shown.returncode == 0
    assert "LD_PRELOAD=" in shown.stdout and "libtdump_shim.so" in shown.stdout
    again = tmp_path / "again.yaml"
    again.write_text(shown.stdout)
    assert run(tmp_path, "-c", "again.yaml", "--print").stdout.split("#")[0] == shown.stdout.split("#")[0]


@pytest.mark.parametrize(
    ("compiled", "private"), [("{taps: on}", True), ("{taps: on, cache: shared}", False), ("{taps: off}", False)]
)
def test_engines_keep_no_compiled_code_with_taps(tmp_path, compiled, private):
    (tmp_path / "c.yaml").write_text(f"compile: {compiled}\n")
    shown = run(tmp_path, "-c", "c.yaml", "--print").stdout
    assert ("# VLLM_DISABLE_COMPILE_CACHE=1\n" in shown) == private


def test_the_command_line_wins_over_the_environment_over_the_file(tmp_path):
    (tmp_path / "c.yaml").write_text("steps: 1\nranks: 1\nlog: error\nmemory: {host: 1GiB}\n")
    env = {"TDUMP_STEPS": "2", "TDUMP_RANKS": "2", "TDUMP_FILTER": "mlp", "TDUMP_CONFIG": "no-such.yaml"}
    options = ["--steps", "3", "--set", "memory.thread=false", "--filter", "a,b", "--filter", "c", "--level", "hash"]
    shown = yaml.safe_load(run(tmp_path, "-c", "c.yaml", *options, "--print", env=env).stdout)
    assert (shown["steps"]["select"], shown["ranks"], shown["log"]) == (3, 2, "error")
    memory = {"host": "1GiB", "device": "256MiB", "at_limit": "block", "thread": False, "max_block": "20%"}
    assert shown["memory"] == memory
    assert shown["capture"] == [{"leaf": True, "name": ["a,b", "c"], "level": "hash"}]


ODD = ["\\", '"', "'", "#", "a: b", "- x", "[", " leading", "no", "~", "1e3", "\x01\x1b", "\u2028", "é", "", "a\nb"]


def test_odd_names_read_back_by_another_parser(tmp_path):  # K09
    uses = [{"use": name} for name in ODD if name]
    text = yaml.safe_dump({"filters": {name: [{"max": 1}] for name in ODD}, "capture": {"s": uses}})
    (tmp_path / "c.yaml").write_text(text)
    shown = yaml.safe_load(run(tmp_path, "-c", "c.yaml", "--print").stdout)
    assert list(shown["filters"]) == sorted(ODD, key=lambda name: name.encode())
    assert shown["capture"] == {"s": uses}


def test_explain_names_the_rule(tmp_path):
    (tmp_path / "c.yaml").write_text("capture:\n  - {name: norm, level: off}\n  - {leaf: true, level: hash}\n")
    explained = run(tmp_path, "-c", "c.yaml", "--explain", "encoder.layer.0.attention")
    assert explained.returncode == 0
    assert "hash" in explained.stdout
    off = run(tmp_path, "-c", "c.yaml", "--explain", "encoder.norm")
    assert "off" in off.stdout and "norm" in off.stdout
    assert off.stdout.startswith("encoder.norm: a module without child modules\n")
    assert "  output       forward   off   rule 1\n" in off.stdout
    assert off.stdout.endswith(
        "whether the model has 'encoder.norm'; --from RUN takes that, and its class, from a run\n"
    )
    operator = run(tmp_path, "--set", "collect.aten=on", "--explain", "encoder/aten::mm")
    assert operator.stdout.startswith("encoder/aten::mm: an ATen operator\n  rule 1   {leaf: true}   applies\n")
    missing = run(tmp_path, "--explain", "encoder", "--from", "latest")
    assert missing.returncode == 2 and "no runs in outputs/ here" in missing.stderr
    wrong = run(tmp_path, "--steps", "x", "--explain", "encoder")
    assert wrong.returncode == 2 and "'x'" in wrong.stderr


def test_recipes_are_listed_and_each_is_right(tmp_path):
    names = run(tmp_path, "--recipes")
    assert names.returncode == 0
    *lines, where = names.stdout.splitlines()
    listed = [line.split()[0] for line in lines]
    assert "port" in listed
    for name in listed:
        assert run(tmp_path, "--recipe", name, "--check").returncode == 0, name
        assert run(tmp_path, "-c", where.split(": ")[1].replace("NAME", name), "--check").returncode == 0, name
