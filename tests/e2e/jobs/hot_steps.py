"""A model of eight modules in training. Of the first step, and of all steps from the fifth (or the one named) to the last, it
prints what the thread allocated and formatted (count_allocations.c, preloaded), then the names of the process's threads."""

import ctypes
import pathlib
import sys

import torch

STEPS = 48

torch.set_num_threads(1)
warm = int(sys.argv[1]) if len(sys.argv) > 1 else 4
counter = ctypes.CDLL(None)
layers = [module for _ in range(4) for module in (torch.nn.Linear(16, 16), torch.nn.Tanh())]
net = torch.nn.Sequential(*layers)
x = torch.ones(4, 16)
counts = (ctypes.c_long * 4)()
for step in range(STEPS):
    if step in (0, warm):
        counter.counting_begin()
    net(x).square().sum().backward()
    if step in (0, STEPS - 1):
        counter.counting_end(counts)
        print(f"training {step}", "allocations {} of tdump {} texts {} of tdump {}".format(*counts))
print("threads", *sorted(name.read_text().strip() for name in pathlib.Path("/proc/self/task").glob("*/comm")), sep=",")
