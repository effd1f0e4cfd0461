"""The arithmetic of bench/run: medians of pairs, intervals, and when a target is met."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from lib.intervals import bootstrap
from lib.pairs import Pairs, means, rotate, take
from lib.rows import Row, as_json, as_markdown, as_table
from lib.side import Turn


def turn(wall, cpu=1.0):
    return Turn(wall, cpu, 2 * wall)


def test_the_ratio_is_the_median_over_the_pairs_not_the_ratio_of_medians():
    pairs = Pairs(
        [turn(2.0, 3.0), turn(4.0, 1.0), turn(90.0, 8.0)], [turn(1.0, 1.0), turn(1.0, 1.0), turn(30.0, 2.0)], [3]
    )
    assert pairs.wall == 3.0  # of 2, 4, 3
    assert pairs.cpu == 3.0  # of 3, 1, 4
    assert pairs.drained == 3.0
    assert pairs.wall_interval == (2.0, 4.0)
    joined = Pairs.join([pairs, pairs])
    assert joined.wall == 3.0 and len(joined.judged) == 6
    assert joined.wall_interval == (3.0, 3.0)  # both processes say 3: whole ones are drawn


def test_the_bootstrap_interval_of_a_median():
    assert bootstrap([[1.5] * 7]) == (1.5, 1.5)
    # The median of 101 values 0..100: 95 % between the binomial ranks 41 and 61 (1 + 101/2 -+ 1.96 sqrt(101)/2).
    low, high = bootstrap([list(range(101))])
    assert low == pytest.approx(40, abs=2) and high == pytest.approx(60, abs=2)
    assert bootstrap([list(range(101))]) == (low, high)  # repeatable
    # Groups are drawn whole: a hundred values in one of two groups are one draw.
    assert bootstrap([[1.0] * 100, [2.0] * 100]) == (1.0, 2.0)


def test_turns_are_taken_in_the_order_abba():
    order = []

    class Fake:
        def __init__(self, name):
            self.name = name

        def turn(self, steps):
            order.append(f"{self.name}{steps}")
            return turn(2.0 if self.name == "a" else 1.0)

    pairs = take(Fake("a"), Fake("b"), pairs=3, steps=4)
    assert order == ["a4", "b4", "b4", "a4", "a4", "b4"]
    assert pairs.ratios(lambda t: t.wall) == [2.0, 2.0, 2.0]


def test_where_several_take_turns_each_follows_each_other_equally_often():
    order = []

    class Fake:
        def __init__(self, name):
            self.name = name

        def turn(self, steps, before):
            assert (steps, before) == (1, 1)  # each step follows one of its own process
            order.append(self.name)
            return turn(float(len(order)))

    sides = [Fake(name) for name in "pabc"]
    parts = rotate(sides[0], sides[1:], pairs=4)
    assert len(order) == 4 * 4 * 3
    followers = [pair for start in range(0, 48, 4) for pair in pairwise(order[start : start + 4])]
    assert sorted(followers) == sorted(3 * [(x, y) for x in "pabc" for y in "pabc" if x != y])
    assert all(x != y for x, y in pairwise(order))
    assert [len(part.judged) for part in parts] == [4, 4, 4]
    # A pair has the fastest, here the first, of three turns.
    assert parts[0].judged[0].wall == 1 + order.index("a") and parts[0].against[0].wall == 1 + order.index("p")
    both = means(parts[0].against, parts[2].judged)
    assert both[0].wall == 1 + (order.index("p") + order.index("c")) / 2 and len(both) == 4


@pytest.mark.parametrize(
    ("row", "met"),
    [
        (Row("", "x", "", must=1.12, value=1.13), False),
        (Row("", "x", "", must=1.12, value=1.12), True),
        (Row("", "x", "", must=1.12, value=1.13, interval=(1.11, 1.15)), True),  # its lower end reaches it
        (Row("", "x", "", must=1.12, value=1.14, interval=(1.121, 1.15)), False),
        (Row("", "x", "", "higher", must=4, value=3.9), False),
        (Row("", "x", "", "higher", must=4, value=3.9, interval=(3.8, 4.1)), True),
        (Row("", "x", "", must=1.0, widest=0.02, value=1.004, interval=(0.996, 1.012)), True),
        (Row("", "x", "", must=1.0, widest=0.02, value=1.004, interval=(1.001, 1.012)), False),  # leaves 1 out
        (Row("", "x", "", must=1.0, widest=0.02, value=1.004, interval=(0.991, 1.013)), False),  # too wide
        (Row("", "x", "", must=1.0), None),
        (Row("", "x", "", value=3.0), None),
    ],
)
def test_when_a_target_is_met(row, met):
    assert row.met is met


def test_the_table_and_the_json_say_the_same():
    rows = [
        Row("full", "x", "plain", must=1.12, aim=1.05, group="engine", value=1.25, interval=(1.2, 1.3), cpu=1.01),
        Row("rate", "x", "write", "higher", must=0.9, group="engine", note="not run: no disk"),
    ]
    assert as_table(rows).splitlines() == [
        "      value            95 %   must    aim             CPU  against",
        "full  1.250  x  1.200-1.300  1.120  1.050  NOT MET  1.010  plain",
        "rate         x               0.900         not run         write",
        "",
        "rate: not run: no disk",
    ]
    assert as_markdown(rows).splitlines()[2:] == [
        "| full | 1.250 | x | 1.200-1.300 | 1.120 | 1.050 | NOT MET | 1.010 | plain |",
        "| rate |  | x |  | 0.900 |  | not run |  | write |",
        "",
        "- rate: not run: no disk",
    ]
    first, second = json.loads(as_json(rows))
    assert list(first)[:9] == ["group", "name", "value", "unit", "better", "against", "must", "aim", "met"]
    assert (first["value"], first["met"], first["interval"]) == (1.25, False, [1.2, 1.3])
    assert (second["value"], second["met"], second["better"]) == (None, None, "higher")
