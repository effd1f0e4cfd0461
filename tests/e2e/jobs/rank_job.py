"""A small model on every rank of an MPI job. All ranks run the same steps on the same data; options make them differ.

python rank_job.py [--steps N] [--mpi] [--extra RANK] [--leave RANK] [--sleep SECONDS]

--mpi     initialise MPI (through ctypes) and meet at a barrier in every step
--extra   RANK runs one more forward between its steps 2 and 3, on data of its own
--leave   RANK ends after two steps, its status 0

A rank prints one line: what it computed, and when it was done, in seconds of the wall clock.
"""

import argparse
import ctypes
import os
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--mpi", action="store_true")
parser.add_argument("--extra", type=int, default=-1)
parser.add_argument("--leave", type=int, default=-1)
parser.add_argument("--sleep", type=float, default=0.0)
args = parser.parse_args()
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])


class Mpi:
    """Just MPI_Init, a barrier over the world, MPI_Finalize."""

    def __init__(self) -> None:
        library = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
        # Found through the global scope, as a program that is linked to MPI finds them.
        self.found = ctypes.CDLL(None)
        assert self.found.MPI_Init(None, None) == 0
        self.world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, "ompi_mpi_comm_world")))

    def barrier(self) -> None:
        assert self.found.MPI_Barrier(self.world) == 0

    def finalize(self) -> None:
        assert self.found.MPI_Finalize() == 0


mpi = Mpi() if args.mpi else None
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
total = 0.0
with torch.no_grad():
    for step in range(args.steps):
        if step == 2 and rank == args.leave:
            break
        total += float(model(torch.full((2, 8), step + 1.0)).sum())
        time.sleep(args.sleep)
        if step == 2 and rank == args.extra:
            model(torch.full((2, 8), -100.0))
            time.sleep(args.sleep)
        if mpi is not None:
            mpi.barrier()
if mpi is not None:
    mpi.finalize()
print(f"<rank {rank} total {total!r}> ended {time.time()};", flush=True)
