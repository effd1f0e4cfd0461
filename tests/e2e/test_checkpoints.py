"""A job with activation checkpointing against the same job without (E20)."""

from __future__ import annotations

import sys

import pytest
from conftest import TDUMP_RUN, execute
from diffing import diff, rows, said

JOB = """
import sys, torch
from torch.utils.checkpoint import checkpoint
how, steps, micros = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.drop, self.down = torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 4)
    def forward(self, x):
        return x + self.down(self.drop(self.up(x)))
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.head = torch.nn.ModuleList(Layer() for _ in range(2)), torch.nn.Linear(4, 2)
    def forward(self, x):
        for layer in self.layers:
            if how == "plain":
                x = layer(x)
            else:
                x = checkpoint(layer, x, use_reentrant=False, preserve_rng_state=how == "right")
        return self.head(x)
torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(steps):
    for micro in range(micros):
        net(torch.randn(5, 4)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
RULES = {
    "all.yaml": "{role: [input, output, grad_output, param, param_grad], phase: [forward, backward], level: full}",
    "gradients.yaml": "{role: [grad_input], phase: [backward], level: hash}",
    "forward.yaml": "{role: [input, output], level: hash}",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("checkpoints")
    (cwd / "job.py").write_text(JOB)
    for name, rule in RULES.items():
        (cwd / name).write_text(f"steps: all\ncapture: [{rule}]\n")

    def run(name, how, config, steps, micros):
        command = [TDUMP_RUN, "-c", config, "-o", name, "--", sys.executable, "-W", "ignore", "job.py", how]
        command += [steps, micros]
        done = execute(command, cwd)
        assert done.returncode == 0 and "tdump: COMPLETE" in done.stderr, done.stderr

    for how in ("plain", "right"):
        run(how, how, "all.yaml", "2", "2")
        run(f"{how}-gradients", how, "gradients.yaml", "2", "2")
    # Of one step what is computed anew is all that differs: numbers that are drawn later are others.
    for how in ("plain", "drawn-anew"):
        run(f"{how}-forward", how, "forward.yaml", "1", "1")
    return cwd


def test_what_is_computed_anew_as_before_is_left_out_and_told(runs):
    for a, b in (("plain", "right"), ("right", "plain")):
        report = diff(runs / a, runs / b, status=0)
        assert report["verdict"] == "same" and report["counts"]["paired"] > 0
        assert report["counts"]["unpaired_a"] + report["counts"]["unpaired_b"] == 0
        (told,) = [note for note in report["notes"] if "left out as equal to the first forward" in note]
        (line,) = [row for row in rows(runs / a, runs / b, runs / "rows.jsonl") if row["type"] == "note"]
        assert line["text"] == told
        assert f"in {'B' if b == 'right' else 'A'}: " in told
        assert not any(note.startswith("computed anew by a checkpoint otherwise") for note in report["notes"])
    both = diff(runs / "right", runs / "right", status=0)
    assert not any("computed anew" in note for note in both["notes"])


def test_what_the_hint_names_takes_what_is_left(runs):
    alone = diff(runs / "plain-gradients", runs / "right-gradients", status=1)
    assert all(record["key"].endswith("b.r") for record in alone["unpaired"])
    (hint,) = [note for note in alone["notes"] if "--allow-unpaired" in note]
    pattern = hint.split("--allow-unpaired ")[1].strip("'")
    allowed = diff(runs / "plain-gradients", runs / "right-gradients", "--allow-unpaired", pattern, status=0)
    assert allowed["counts"]["unpaired_allowed"] == alone["counts"]["unpaired_b"] > 0


def test_a_dropout_that_is_drawn_anew_fails_and_is_told(runs):
    a, b = runs / "plain-forward", runs / "drawn-anew-forward"
    report = diff(a, b, status=1)
    assert report["counts"]["failing"] == 0 and report["counts"]["unpaired_a"] == 0  # the first forwards are equal
    assert report["counts"]["unpaired_b"] > 0
    (told,) = [note for note in report["notes"] if "otherwise than the first forward, in B: " in note]
    assert ".drop@output#~r" in told
    assert not any("--allow-unpaired" in note for note in report["notes"])  # which would hide it
    assert "otherwise than the first forward" in " ".join(said(a, b, status=1).split())
