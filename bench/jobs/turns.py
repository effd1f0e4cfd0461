"""The job's side of taking turns (lib/side.py has the other): run steps when told to, and say what they took.

Says "ready"; then for each line "STEPS" or "STEPS BEFORE", runs so many steps, after BEFORE others, and answers
"WALL CPU" of those: nanoseconds by the clock and of this thread's CPU time. Ends with its input. Speaks on what was
standard output when this module was imported; what anything else prints there from then on goes to standard error.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

_answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)


def take_turns(step: Callable[[], object]) -> None:
    print("ready", file=_answers)
    for line in sys.stdin:
        steps, *before = map(int, line.split())
        for _ in range(sum(before)):
            step()
        cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
        for _ in range(steps):
            step()
        wall, cpu = time.perf_counter_ns() - wall, time.thread_time_ns() - cpu
        print(wall, cpu, file=_answers)
