"""Torch work in forked children is recorded nowhere: the process they come from says so, once, at its end."""

from __future__ import annotations

import sys

import pytest
from conftest import BUILD, TDUMP_RUN, execute, latest, no_run

HEAD = """
import multiprocessing, os, sys
import torch
def model():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
def work():
    net = model()
    with torch.no_grad():
        for _ in range(3):
            net(torch.ones(2, 4))
def children(count, target=work, method="fork"):
    context = multiprocessing.get_context(method)
    started = [context.Process(target=target) for _ in range(count)]
    for child in started:
        child.start()
    for child in started:
        child.join()
        assert child.exitcode == 0
"""
ATEN = "steps: all\ncollect: {aten: on}\n"


def run(app, tmp_path, body, config="steps: all\n"):
    (tmp_path / "c.yaml").write_text(config)
    command = [TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, app(HEAD + 'if __name__ == "__main__":\n' + body)]
    done = execute(command, tmp_path, {"PYTHONPATH": str(BUILD / "python")})
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("config", ["steps: all\n", ATEN])
def test_a_job_that_works_in_forked_children_only_is_told(app, tmp_path, config):
    said = run(app, tmp_path, "    children(2)\n", config)
    assert said == (
        "tdump: nothing is recorded: only 2 forked children ran modules or operators, and forked children are not "
        "recorded; run that part in the process itself, or start its process anew (multiprocessing: start method "
        "'spawn')\n"
    )
    assert no_run(tmp_path)


def test_what_the_line_says_helps(app, tmp_path):
    said = run(app, tmp_path, "    children(1, method='spawn')\n")
    assert "forked" not in said
    assert len(latest(tmp_path).passes(0)) == 3


def test_operators_alone_are_told_where_they_are_wanted(app, tmp_path):
    alone = "    children(1, target=lambda: torch.ones(2) + 1)\n"
    assert "only 1 forked child ran modules or operators" in run(app, tmp_path, alone, ATEN)
    assert run(app, tmp_path, alone) == ""


def test_a_rank_with_forked_children_has_a_note(app, tmp_path):
    said = run(app, tmp_path, "    work()\n    children(2)\n    work()\n")
    note = (
        "2 forked children ran modules or operators, and forked children are not recorded; to have it recorded, run "
        "that part in the rank itself (of a data loader: num_workers=0)"
    )
    assert said.count(note) == 1, said
    assert "tdump: COMPLETE" in said  # nothing of the rank is missing
    assert note in execute([BUILD / "bin" / "tdump-view", "latest"], tmp_path).stdout
    assert len(latest(tmp_path).ranks()[0]) == 1


def test_children_that_run_nothing_are_not_told(app, tmp_path):
    assert "forked" not in run(app, tmp_path, "    work()\n    children(2, target=os.getpid)\n")


LOADER = """
    net = model()
    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return 8
        def __getitem__(self, i):
            return {item}
    for _ in torch.utils.data.DataLoader(Images(), batch_size=4, num_workers=2, multiprocessing_context="fork"):
        work()
"""


def test_loading_data_is_not_told_and_a_module_that_does_it_is(app, tmp_path):
    assert "forked" not in run(app, tmp_path, LOADER.format(item="torch.ones(4) * i"), ATEN)
    said = run(app, tmp_path, LOADER.format(item="net(torch.ones(4)).detach()"), ATEN)
    assert "2 forked children ran modules or operators" in said
