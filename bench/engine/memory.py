"""Resident memory of a job whose arena is full, above the job's own."""

from __future__ import annotations

from engine.steps import ATEN, encoder, kept
from lib.measurement import Bench, Measurement
from lib.rows import Row

ARENA_MIB = 256
# Without a writer thread the arena is emptied when it is full, not before.
CONFIG = ATEN + f"memory: {{host: {ARENA_MIB}MiB, thread: false}}\n"
# The allocator then maps each large tensor by itself and gives it back at once. By default it comes to keep them in one
# heap, whose holes depend on every small allocation between them, the job's and tdump's.
OWN_MAPPINGS = ["env", f"MALLOC_MMAP_THRESHOLD_={256 << 10}"]


def memory(bench: Bench, rows: list[Row]) -> None:
    for row, words in zip(rows, ([], OWN_MAPPINGS), strict=True):
        command = [*words, *encoder(bench)]
        name = f"under{len(words)}"
        sides = [bench.side(name, bench.tdump(name, CONFIG, command)), bench.side(f"plain{len(words)}", command)]
        with bench.sides(*sides):
            for side in sides:
                side.forget_peak()
                side.turn(2 if bench.quick else 12)
            peaks = [side.peak_memory() / 2**20 for side in sides]
        row.value = peaks[0] - peaks[1]
        row.note = f"peak {peaks[0]:,.0f} MiB, without tdump {peaks[1]:,.0f} MiB; {kept(sides[0])}"


MEMORY = Measurement(
    [
        Row(
            f"resident memory, arena of {ARENA_MIB} MiB",
            "MiB",
            "the same job's own; must is the arena and 64 MiB",
            must=ARENA_MIB + 64,
        ),
        Row("the same, large tensors mapped one by one", "MiB", "the same job's own"),
    ],
    memory,
)
