"""What preloading does to processes that are none of tdump's business."""

from __future__ import annotations

import os

import pytest
from conftest import TDUMP_RUN, execute, no_run
from jobs.nonsense import NAMES, VALUES

SHELL = r"""
set -u
seq 1 200 | grep 7 | sort -r | head -3
(cd /; pwd; exit 3); echo "subshell $?"
sleep 0.01 & wait $!; echo "background $?"
for i in 1 2 3; do (echo "in $i") & done; wait
x=$(printf '%s' "$(echo nested)"); echo "$x"
cat <(echo process) | tr a-z A-Z
false | true; echo "${PIPESTATUS[*]}"
exec sh -c 'echo replaced; exit 7'
"""


def stable(text: str) -> list[str]:
    return sorted(text.splitlines())  # background jobs print in any order


def test_a_shell_behaves_the_same_100_times_of_100(tmp_path):
    command = ["bash", "-c", SHELL]
    bare = execute(command, tmp_path)
    assert bare.returncode == 7 and "replaced" in bare.stdout and bare.stderr == ""
    for extra in ([], ["--no-children"]):
        for _ in range(50):
            under = execute([TDUMP_RUN, "--dump", *extra, "--", *command], tmp_path)
            assert (under.returncode, stable(under.stdout), under.stderr) == (
                7,
                stable(bare.stdout),
                "",
            )
    assert no_run(tmp_path)


def test_a_compiler_under_tdump_makes_the_same_object_and_no_run(tmp_path):
    (tmp_path / "a.c").write_text("int f(int x) { return x + 1; }\n")
    bare = execute(["cc", "-c", "a.c", "-o", "bare.o"], tmp_path)
    under = execute([TDUMP_RUN, "--dump", "--", "sh", "-c", "cc -c a.c -o under.o"], tmp_path)
    assert (under.returncode, under.stderr) == (bare.returncode, bare.stderr) == (0, "")
    assert (tmp_path / "bare.o").read_bytes() == (tmp_path / "under.o").read_bytes()
    assert no_run(tmp_path)


def variables(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def test_children_inherit_the_preload_after_what_was_there(tmp_path):
    before = "/usr/lib/x86_64-linux-gnu/libm.so.6"
    if not os.path.exists(before):
        pytest.skip("no libm at the usual place")
    seen = variables(execute([TDUMP_RUN, "--dump", "--", "sh", "-c", "env"], tmp_path, {"LD_PRELOAD": before}).stdout)
    assert seen["LD_PRELOAD"].split(":")[0] == before
    assert seen["LD_PRELOAD"].split(":")[1].endswith("/libtdump_shim.so")
    alone = variables(
        execute(
            [TDUMP_RUN, "--dump", "--no-children", "--", "sh", "-c", "env"],
            tmp_path,
            {"LD_PRELOAD": before},
        ).stdout
    )
    assert alone["LD_PRELOAD"] == before
    none = variables(execute([TDUMP_RUN, "--dump", "--no-children", "--", "sh", "-c", "env"], tmp_path).stdout)
    assert "LD_PRELOAD" not in none


@pytest.mark.parametrize("value", VALUES)
def test_no_value_of_a_variable_ends_tdump_run_by_a_signal(tmp_path, value):
    for name in NAMES:
        done = execute([TDUMP_RUN, "--", "sh", "-c", "echo ran"], tmp_path, {name: os.fsdecode(VALUES[value])})
        assert done.returncode in (0, 125), (name, done.stderr)
        if done.returncode == 0:
            assert done.stdout == "ran\n"
        else:
            assert done.stdout == "" and done.stderr.startswith("tdump-run: ") and len(done.stderr) < 10_000, name
