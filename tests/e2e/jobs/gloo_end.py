"""How a job of gloo ranks ends.

A process that ends while a thread of gloo still lets go of the tensors of a finished collective is aborted: the thread
wants the interpreter's lock in a destructor ("terminate called without an active exception"; torch 2.15, without tdump
too). A group that nothing keeps ends its threads in destroy_process_group(); DTensors keep theirs for good.
"""

from __future__ import annotations

import gc
import time
from pathlib import Path

import torch.distributed as dist

PATIENCE = 60  # seconds


def _busy() -> bool:
    for task in Path("/proc/self/task").iterdir():
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            if (task / "comm").read_text().startswith("pt_gloo") and state != "S":
                return True
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            pass
    return False


def end_gloo() -> None:
    """Leaves the group once gloo's threads have nothing left to do."""
    gc.collect()
    dist.destroy_process_group()
    end = time.monotonic() + PATIENCE
    for _ in range(2):  # asleep for want of the lock is not at rest
        time.sleep(0.01)
        while _busy() and time.monotonic() < end:
            time.sleep(0.01)
