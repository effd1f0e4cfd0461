"""What the README tells a newcomer to write, on the smallest job."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from conftest import SOURCE, TDUMP_RUN, execute

JOB = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))
with torch.no_grad():
    for _ in range(2):
        model(torch.ones(2, 4))
"""


def configurations() -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", (SOURCE / "README.md").read_text(), re.DOTALL)


def test_there_is_one():
    assert len(configurations()) == 1


def test_the_short_answer_is_of_the_long_one():
    samples = re.findall(r"```\n(.*?)```", re.sub("```yaml", "```", (SOURCE / "README.md").read_text()), re.DOTALL)
    [short] = [sample for sample in samples if sample.startswith("ORIGIN")]
    [long] = [sample for sample in samples if sample.startswith("A outputs/demo")]
    assert len(short.splitlines()) == 3 and set(short.splitlines()) < set(long.splitlines())


def test_what_needs_no_file(tmp_path: Path):
    (tmp_path / "app.py").write_text(JOB)
    command = re.search(r"`(tdump-run --dump -- python app\.py)` needs no file", (SOURCE / "README.md").read_text())
    assert command
    done = execute([TDUMP_RUN, *command[1].split()[1:3], sys.executable, "app.py"], tmp_path)
    assert done.returncode == 0 and "tdump: COMPLETE" in done.stderr, done.stderr


@pytest.mark.parametrize("configuration", configurations())
def test_one_rank_is_enough(configuration: str, tmp_path: Path):
    (tmp_path / "tdump.yaml").write_text(configuration)
    (tmp_path / "job.py").write_text(JOB)
    check = execute([TDUMP_RUN, "-c", "tdump.yaml", "--check", "--ranks", "1"], tmp_path)
    assert (check.returncode, check.stderr) == (0, "")
    done = execute([TDUMP_RUN, "-c", "tdump.yaml", "-o", "run", "--", sys.executable, "job.py"], tmp_path)
    assert done.returncode == 0 and "tdump: COMPLETE" in done.stderr, done.stderr
