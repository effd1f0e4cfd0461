"""Ratios of a step of a compiled model, with taps in its graph, to that without."""

from __future__ import annotations

from functools import partial

from engine.steps import LEAVES, STEADY_HEAP, encoder, fill, kept
from lib.measurement import Bench, Measurement
from lib.pairs import Pairs, rotate, take
from lib.rows import Row

# What idles has recorded a step.
NOT_WANTED = "steps: [0, 1000000]\ncapture: [{leaf: true, level: full}]\n"
TAPS_ON, TAPS_OFF = "compile: {taps: on}\n", "compile: {taps: off}\n"
WARM_UP = 20
PROCESSES, PAIRS_OF_A_PROCESS, STEPS = 12, 5, 3


def command(bench: Bench, shape: tuple[int, int], *words: str) -> list[str]:
    """The processes of a measurement share what the compiler makes."""
    cache = f"TORCHINDUCTOR_CACHE_DIR={bench.work / 'compiled'}"
    batch, tokens = shape
    sizes = [] if bench.quick else ["--batch", str(batch), "--tokens", str(tokens)]
    backend = "aot_eager" if bench.quick else "inductor"
    job = encoder(bench, *sizes, "--warm-up", str(WARM_UP), "--compile", backend, *words)
    return [*STEADY_HEAP, cache, *job]


def compiled(bench: Bench, rows: list[Row], shape: tuple[int, int]) -> None:
    """Fills four rows: not wanted against empty taps and against no tdump, taps off, and all leaf outputs."""
    processes, pairs, steps = (1, 2, 1) if bench.quick else (PROCESSES, PAIRS_OF_A_PROCESS, STEPS)
    plain = command(bench, shape)
    empty = command(bench, shape, "--empty-taps", bench.build.job("libempty_taps.so"))
    taken: list[list[Pairs]] = [[], [], [], []]
    for number in range(processes):
        commands = {
            "plain": plain,
            "waits": bench.tdump(f"waits{number}", TAPS_ON + NOT_WANTED, plain),
            "empty": bench.tdump(f"empty{number}", TAPS_ON + NOT_WANTED, empty),
            "off": bench.tdump(f"off{number}", TAPS_OFF + NOT_WANTED, plain),
        }
        full = bench.side(f"full{number}", bench.tdump(f"full{number}", TAPS_ON + LEAVES % "full", plain))
        sides = {name: bench.side(f"{name}{number}", words) for name, words in commands.items()}
        with bench.sides(*sides.values(), full):
            waits, without, off = rotate(sides["plain"], [sides[name] for name in ("waits", "empty", "off")], pairs)
            taken[0].append(Pairs(waits.judged, without.judged, [pairs]))
            taken[1].append(waits)
            taken[2].append(off)
            taken[3].append(take(full, sides["plain"], pairs, steps))
    for row, parts in zip(rows, taken, strict=True):
        fill(row, Pairs.join(parts))
    rows[3].note = kept(full)


def rows_of(shape: str) -> list[Row]:
    plain = "the compiled step without tdump"
    return [
        Row(f"compiled, taps not wanted, {shape}", "x", "the same graph with empty taps", must=1.005),
        Row(f"the same, {shape}, with what fusion it costs", "x", plain, must=1.10),
        Row(f"compiled, taps off, {shape}", "x", plain, must=1.0),
        Row(f"compiled, leaf outputs full, {shape}", "x", plain, must=1.3, aim=1.2),
    ]


COMPILED = [
    Measurement(rows_of(f"{batch} x {tokens}"), partial(compiled, shape=(batch, tokens)))
    for batch, tokens in ((8, 128), (1, 32))
]
