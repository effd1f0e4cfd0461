"""`peak`: prints the most bytes that torch had allocated at once while a deep model trains. `flat`: 2,000 forwards without
gradients, then 50 steps of 8 micro-batches; prints the resident memory in KiB a quarter into each part, and at its end.
"""

import sys

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile


def peak() -> None:
    torch.set_num_threads(1)
    # What comes in is small, what passes between the layers is 256 KiB: gradient buffers kept too long would show.
    net = nn.Sequential(nn.Linear(8, 1024), *(layer for _ in range(6) for layer in (nn.GELU(), nn.Dropout(0.1))))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

    def step() -> None:
        net(torch.ones(64, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        for _ in range(100):
            step()
    held = most = 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    print("peak", most)


def resident() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def flat() -> None:
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
    optimizer = torch.optim.AdamW(net.parameters())
    seen = []
    with torch.no_grad():
        for n in range(2000):
            net(torch.ones(64, 64))
            if n == 500:
                seen.append(resident())
    seen.append(resident())
    for n in range(50):
        for _ in range(8):
            net(torch.ones(64, 64)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if n == 12:
            seen.append(resident())
    seen.append(resident())
    print("resident", *seen)


torch.manual_seed(0)
peak() if sys.argv[1] == "peak" else flat()
