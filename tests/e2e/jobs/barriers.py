"""A program without torch: MPI_Init, a number of barriers, MPI_Finalize. Its functions are found as a linked program's."""

import ctypes
import sys
import time

library = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
found = ctypes.CDLL(None)
assert found.MPI_Init(None, None) == 0
world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, "ompi_mpi_comm_world")))
for _ in range(int(sys.argv[1])):
    assert found.MPI_Barrier(world) == 0
assert found.MPI_Finalize() == 0
print(f"<barriers> ended {time.time()};", flush=True)
