"""Resident memory of a job whose arena is full, above the job's own."""

from __future__ import annotations

from engine.steps import ATEN, encoder, kept
from lib.measurement import Bench, Measurement
from lib.rows import Row

ARENA_MIB = 256


def memory(bench: Bench, rows: list[Row]) -> None:
    command = encoder(bench)
    under = bench.tdump("under", ATEN + f"memory: {{host: {ARENA_MIB}MiB}}\n", command)
    sides = [bench.side("under", under), bench.side("plain", command)]
    with bench.sides(*sides):
        for side in sides:
            side.forget_peak()
            side.turn(2 if bench.quick else 12)
        peaks = [side.peak_memory() / 2**20 for side in sides]
    rows[0].value = peaks[0] - peaks[1]
    rows[0].note = f"peak {peaks[0]:,.0f} MiB, without tdump {peaks[1]:,.0f} MiB; {kept(sides[0])}"


MEMORY = Measurement(
    [
        Row(
            f"resident memory, arena of {ARENA_MIB} MiB",
            "MiB",
            "the same job's own; must is the arena and 64 MiB",
            must=ARENA_MIB + 64,
        )
    ],
    memory,
)
