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


@pytest.mark.parametrize("configuration", configurations())
def test_one_rank_is_enough(configuration: str, tmp_path: Path):
    (tmp_path / "tdump.yaml").write_text(configuration)
    (tmp_path / "job.py").write_text(JOB)
    check = execute([TDUMP_RUN, "-c", "tdump.yaml", "--check", "--ranks", "1"], tmp_path)
    assert (check.returncode, check.stderr) == (0, "")
    done = execute([TDUMP_RUN, "-c", "tdump.yaml", "-o", "run", "--", sys.executable, "job.py"], tmp_path)
    assert done.returncode == 0 and "tdump: COMPLETE" in done.stderr, done.stderr
