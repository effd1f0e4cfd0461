"""One step of a small model under every variable of tdump set to every kind of nonsense, each in a forked process. Prints
a line for each whose process did not end as it should."""

import contextlib
import ctypes
import os

import tdump_autoload
import torch
from nonsense import NAMES, VALUES

torch.set_num_threads(1)
for name in NAMES:
    for kind, value in VALUES.items():
        child = os.fork()
        if child == 0:
            os.environ["TDUMP_DIR"] = f"{name}_{kind}"
            os.environb[name.encode()] = value
            tdump_autoload.load()
            with torch.no_grad():
                y = torch.nn.Linear(1, 1, bias=False)(torch.zeros(1, 1))
            with contextlib.suppress(OSError):  # not loaded: tdump stayed out
                ctypes.CDLL("libtdump.so").tdump_runtime_stop()
            os._exit(0 if float(y) == 0 else 3)  # taking Python and torch down costs far more than all the rest
        _, status = os.waitpid(child, 0)
        if status != 0:
            print(name, kind, status, flush=True)
print("done")
