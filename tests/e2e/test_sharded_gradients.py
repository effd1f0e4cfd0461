"""Gradients of parameters that FSDP2 shards: the part of each rank, as it is once it was reduced, with where it lies in the
whole. FSDP2 adds to them past autograd."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import tdump
import torch
from conftest import SOURCE, TDUMP_RUN, Run, execute, mpirun

JOB = Path(__file__).parent / "jobs" / "sharded_training.py"
CONFIG = "steps: all\nsignature: false\ncapture: [{role: [param_grad], level: [full, stats]}]\n"
SHAPES = {"0.weight": (8, 6), "0.bias": (8,), "2.weight": (3, 8), "2.bias": (3,)}


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """The passes of each rank, and what each saw of its gradients after each backward."""
    cwd = tmp_path_factory.mktemp("sharded")
    (cwd / "c.yaml").write_text(CONFIG)
    bare = mpirun(2, [sys.executable, JOB, cwd / "store0", cwd / "bare"], cwd)
    command = [TDUMP_RUN, "-c", "c.yaml", "-o", "run", "--", sys.executable, JOB, cwd / "store1", cwd / "seen"]
    dumped = mpirun(2, command, cwd)
    assert bare.returncode == dumped.returncode == 0, bare.stderr + dumped.stderr
    passes = [[tdump.load_pass(file) for file in Run(cwd / "run").passes(rank)] for rank in range(2)]
    return bare, dumped, passes, [torch.load(cwd / f"seen{rank}.pt") for rank in range(2)]


def test_the_job_is_the_same_job(job):
    bare, dumped, *_ = job
    assert bare.printed == dumped.printed
    assert all(re.match("hooks 4 weights ", text) for text in bare.printed)


@pytest.mark.parametrize("rank", [0, 1])
def test_each_backward_leaves_the_part_of_this_rank(job, rank):
    passes, expected = job[2][rank], job[3][rank]
    assert len(passes) == 2 and len(expected) == 4
    for step, p in enumerate(passes):
        mine = {(f"{r.path}.{r.arg}", r.micro, r.call): r for r in p.records()}
        assert set(mine) == {(name, micro, 0) for name in SHAPES for micro in range(2)}
        for (name, micro, _), record in mine.items():
            theirs = expected[2 * step + micro][name]
            assert record.role == "param_grad" and record.reason == "" and record.phase == "backward"
            assert record.subclass == "DTensor" and "payload" in record.kept
            assert torch.equal(p.tensor(record), theirs), (step, name, micro)
            assert record.stats["count"] == theirs.numel()


def test_where_a_part_lies_in_the_whole_is_kept(job):
    parts: dict[str, int] = dict.fromkeys(SHAPES, 0)
    for passes in job[2]:
        for record in passes[0].records():
            name = f"{record.path}.{record.arg}"
            assert record.global_shape == SHAPES[name]
            assert record.placements == "(Shard(dim=0),)"
            assert record.mesh.startswith("DeviceMesh(") and "2" in record.mesh
            parts[name] += record.shape[0] if record.micro == 0 else 0
    assert parts == {name: shape[0] for name, shape in SHAPES.items()}


# A parameter that is sharded, but not by FSDP2, whose gradient compiled autograd accumulates; by itself, and in a model of
# which FSDP2 shards another part.
COMPILED = """
import torch, torch.distributed as dist
from gloo_end import end_gloo
from torch._dynamo import compiled_autograd
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
linear, other = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
for name, parameter in list(linear.named_parameters()):
    setattr(linear, name, torch.nn.Parameter(distribute_tensor(torch.ones_like(parameter), mesh, [Shard(0)])))
model = torch.nn.ModuleList([linear, fully_shard(other)]) if BESIDE else linear
x = distribute_tensor(torch.ones(2, 4), mesh, [Replicate()])
for step in range(2):
    loss = linear(x).sum()
    with compiled_autograd._enable(torch.compile(backend="eager")):
        loss.backward()
    print(linear.weight.grad.to_local().sum().item())
end_gloo()
"""


@pytest.mark.parametrize("beside", [False, True])
def test_compiled_autograd_meets_no_hook_of_python(tmp_path, app, beside):
    program = app(f"BESIDE = {beside}\n" + COMPILED)
    (tmp_path / "c.yaml").write_text(CONFIG)
    env = {"PYTHONPATH": str(SOURCE / "tests" / "e2e" / "jobs")}
    bare = execute([sys.executable, "-W", "ignore", program], tmp_path, env)
    dumped = execute([TDUMP_RUN, "-c", "c.yaml", "--", sys.executable, "-W", "ignore", program], tmp_path, env)
    assert bare.returncode == dumped.returncode == 0, bare.stderr + dumped.stderr
    assert dumped.stdout == bare.stdout == "32.0\n64.0\n"
