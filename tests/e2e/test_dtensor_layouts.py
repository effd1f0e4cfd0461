"""Shards that torch.distributed.tensor makes are put together again, from what torch prints of placements and mesh.

No process group talks: with the fake backend one process takes every rank's part in turn, and distribute_tensor without
a source rank cuts the local copy. The cases are written in the form of tests/compare/layout_cases.txt and read by the
same C++ test.
"""

from __future__ import annotations

import itertools

import torch
import torch.distributed as dist
from conftest import BUILD, execute
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

TEST = BUILD / "tests" / "compare_test"
MESHES = (
    [("tp",), (2,)],
    [("tp",), (4,)],
    [("dp", "tp"), (2, 2)],
    [("dp", "tp"), (2, 4)],
    [("dp", "cp", "tp"), (2, 2, 2)],
)
SHAPES = [(8, 4), (7, 5, 3), (3,), (16, 2, 4)]


def cases():
    for names, sizes in MESHES:
        for shape in SHAPES:
            kinds = [Replicate(), *(Shard(dim) for dim in range(len(shape)))]
            for placements in itertools.product(kinds, repeat=len(names)):
                yield names, sizes, shape, placements


def shards(names, sizes, work):
    """Every rank's shards of all cases of one mesh, as torch cuts them; and the mesh as torch prints it."""
    world = int(torch.tensor(sizes).prod())
    local = []
    for rank in range(world):
        dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
        text = str(mesh)
        local.append([])
        for shape, placements in work:
            whole = torch.arange(torch.Size(shape).numel(), dtype=torch.int64).reshape(shape)
            tensor = distribute_tensor(whole, mesh, placements, src_data_rank=None)
            local[rank].append((tensor.to_local().clone(), str(tensor.placements)))
        dist.destroy_process_group()
    return text, local


def line(mesh: str, sizes, shape, placements, parts) -> str:
    split = {i for i, placement in enumerate(placements) if isinstance(placement, Shard)}
    copies = int(torch.tensor([1, *(size for i, size in enumerate(sizes) if i not in split)]).prod())
    fields = [mesh, parts[0][1], "", "int64", " ".join(map(str, shape)), str(copies)]
    for rank, (part, _) in enumerate(parts):
        size = " ".join(map(str, part.shape))
        fields.append(f"{rank}:{size}:{' '.join(map(str, part.flatten().tolist()))}")
    return "|".join(fields)


def test_what_distribute_tensor_cuts_is_put_together_again(tmp_path):
    lines = []
    for (names, sizes), group in itertools.groupby(cases(), key=lambda case: (case[0], case[1])):
        work = [(shape, placements) for _, _, shape, placements in group]
        mesh, local = shards(names, sizes, work)
        lines += [
            line(mesh, sizes, shape, placements, [local[rank][i] for rank in range(len(local))])
            for i, (shape, placements) in enumerate(work)
        ]
    assert len(lines) > 250
    (tmp_path / "cases.txt").write_text("\n".join(lines) + "\n")
    done = execute([TEST, "--gtest_filter=LayoutCases.*"], tmp_path, {"LAYOUT_CASES": str(tmp_path / "cases.txt")})
    assert done.returncode == 0, done.stdout[-4000:]
    assert f"{len(lines)} cases" in done.stdout
