"""A small model in an AOTInductor package, and run from it.

compile FILE MODE       makes the package with the debug printer in that mode (1 save, 2 print)
run FILE [STEP]         calls it in STEPS steps and prints each output as bits; in STEP, when given, with an index far
                        outside, which a kernel of the package reads: SIGSEGV
fail FILE               calls it with one input of two between two good calls, and catches the exception
compile-conv FILE       the same of a small CNN, in mode 1
run-conv FILE           calls it once; the job numbers its step 100
jit                     the same model, JIT-compiled through the C++ wrapper, trained for STEPS steps
"""

from __future__ import annotations

import os
import sys

import torch
from torch import nn

STEPS = 3
FAR = 2**40


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x, index):
        return torch.softmax(self.down(torch.relu(self.up(x)))[index] + 1, -1)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)

    def forward(self, x):
        return torch.relu(self.second(torch.relu(self.first(x))))


def conv_model():
    torch.manual_seed(0)
    return ConvNet()


def conv_input():
    return torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(1))


def model():
    torch.manual_seed(0)
    return Net()


def inputs(step, rank):
    generator = torch.Generator().manual_seed(10 * step + rank)
    return torch.randn(6, 4, generator=generator), torch.tensor([5, 0, 3])


def configure():
    import torch._inductor.config as config

    config.assert_indirect_indexing = False
    config.compile_threads = 1
    return config


def compile_package(file, mode, net, arguments):
    configure().aot_inductor.debug_intermediate_value_printer = mode
    exported = torch.export.export(net.eval(), arguments)
    torch._inductor.aoti_compile_and_package(exported, package_path=file)


def run(file, crash_in):
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", 0))
    package = torch._inductor.aoti_load_package(file)
    with torch.no_grad():
        for step in range(STEPS):
            x, index = inputs(step, rank)
            if step == crash_in:
                index = index + FAR
            print(step, package(x, index).numpy().tobytes().hex(), flush=True)


def run_conv(file):
    import tdump

    package = torch._inductor.aoti_load_package(file)
    with torch.no_grad():
        tdump.step(100)
        print(torch.allclose(package(conv_input()), conv_model()(conv_input()), atol=1e-5), flush=True)


def fail(file):
    package = torch._inductor.aoti_load_package(file)
    for step in (0, 1):
        print(step, package(*inputs(step, 0)).numpy().tobytes().hex(), flush=True)
        try:
            if step == 0:
                package.loader.run([inputs(step, 0)[0]])
        except RuntimeError:
            print("caught", flush=True)


def jit():
    config = configure()
    config.cpp_wrapper = True
    config.aot_inductor.debug_intermediate_value_printer = "1"
    net = model()
    compiled = torch.compile(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        compiled(*inputs(step, 0)).square().sum().backward()
        optimizer.step()
    print(net.up.weight.detach().numpy().tobytes().hex())


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "compile":
        compile_package(*words, model(), inputs(0, 0))
    elif what == "compile-conv":
        compile_package(*words, "1", conv_model(), (conv_input(),))
    elif what == "run-conv":
        run_conv(*words)
    elif what == "run":
        run(words[0], int(words[1]) if len(words) > 1 else -1)
    elif what == "fail":
        fail(*words)
    else:
        jit()
