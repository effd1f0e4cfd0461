"""Whole processes, timed, with the memory they took at most."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from lib.build import environment
from lib.side import JobError

THREADS = 2
EXTRA = {"OMP_NUM_THREADS": str(THREADS)}


@dataclass
class Ended:
    seconds: float
    peak_bytes: int
    output: str


def run(command: Sequence[str], allowed: Sequence[int] = (0,)) -> Ended:
    """From its start to its end. An exit status that is not `allowed` is an error."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, env=environment(EXTRA), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    output, errors = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in allowed:
        raise JobError(f"{' '.join(command)} ended with status {process.returncode}\n{errors.strip()}{output.strip()}")
    return Ended(seconds, usage.ru_maxrss * 1024, output)
