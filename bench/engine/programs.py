"""Rows of single programs in C++: a tap, a rejected operator, the statistics pass."""

from __future__ import annotations

from statistics import median

from lib.intervals import bootstrap
from lib.measurement import Bench, Measurement
from lib.pairs import take
from lib.rows import Row

TAPS = 1000  # of a step of jobs/tap.cc
TAP_CONFIG = "steps: {select: all, boundary: explicit}\ncapture: [{name: bench, level: full}]\n"
REJECTING = (
    "steps: {select: all, boundary: explicit}\ncollect: {aten: on}\nsignature: false\n"
    "capture: [{op: '^aten::bmm$', level: full}]\n"
)


def tap(bench: Bench, rows: list[Row]) -> None:
    side = bench.side("tap", bench.tdump("tap", TAP_CONFIG, [bench.build.job("tap")]))
    with bench.sides(side):
        turns = [side.turn(2) for _ in range(3 if bench.quick else 100)]
    times = [turn.wall * 1e6 / (2 * TAPS) for turn in turns]
    rows[0].value, rows[0].interval = median(times), bootstrap([times])


def rejected(bench: Bench, rows: list[Row]) -> None:
    job = bench.build.job("rejected")
    under = bench.side("rejecting", bench.tdump("rejecting", REJECTING, [job]))
    bare = bench.side("bare", [job, "bare"])
    with bench.sides(under, bare):
        pairs = take(under, bare, *((3, 1) if bench.quick else (200, 2)))
    rows[0].value, rows[0].interval, rows[0].cpu = pairs.wall, pairs.wall_interval, pairs.cpu


def statistics_of(dtype: str, row: Row) -> Measurement:
    def measure(bench: Bench, rows: list[Row]) -> None:
        job = [bench.build.job("statistics"), dtype, "1" if bench.quick else "16"]
        torch, ours = bench.side("torch", [*job, "torch"]), bench.side("tdump", [*job, "tdump"])
        with bench.sides(torch, ours):
            pairs = take(torch, ours, *((3, 1) if bench.quick else (100, 3)))
        rows[0].value, rows[0].interval = pairs.wall, pairs.wall_interval

    return Measurement([row], measure)


TAP = Measurement([Row("tap of a 256-byte tensor", "us", "the calling thread's time", must=1.0, aim=0.3)], tap)
REJECTED = Measurement(
    [Row("rejected ATen operator", "x", "a bare RecordFunction callback", must=1.3, aim=1.1)], rejected
)
TORCH = "torch's aminmax, mean, std, count of NaN"
STATISTICS = [
    statistics_of("float32", Row("statistics, float32", "x", TORCH, "higher", must=4, aim=8)),
    statistics_of("bfloat16", Row("statistics, bfloat16", "x", TORCH, "higher", must=8, aim=16)),
]
