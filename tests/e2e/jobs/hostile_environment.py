"""One step of a small model under every variable of tdump set to every kind of nonsense, each in a forked process. Prints
a line for each whose process did not end as it should."""

import contextlib
import ctypes
import os

import tdump_autoload
import torch

NAMES = (
    "TDUMP_CONFIG",
    "TDUMP_DIR",
    "TDUMP_JOB",
    "TDUMP_FILTER",
    "TDUMP_FILTER_FN",
    "TDUMP_STEPS",
    "TDUMP_RANKS",
    "TDUMP_LEVEL",
    "TDUMP_RANK",
    "TDUMP_DISABLE",
    "TDUMP_LOG",
    "TDUMP_EFFECTIVE",
    "TDUMP_EFFECTIVE_1",
    "TDUMP_EFFECTIVE_FROM",
    "TDUMP_OWNER",
    "TDUMP_LAUNCH",
    "TDUMP_LAUNCHED",
    "TDUMP_BASE",
    "TDUMP_CHILDREN",
)
VALUES = {
    "empty": b"",
    "list": b"a,b,c",
    "word": b"yes",
    "number": b"-1",
    "long": b"x" * 65536,
    "missing file": b"/no/such/file",
    "not UTF-8": b"\xff\xfe\x80",
}

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
