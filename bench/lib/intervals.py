"""Medians of pairs and how sure they are."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain
from statistics import median


def bootstrap(groups: Sequence[Sequence[float]], resamples: int = 2000, seed: int = 1) -> tuple[float, float]:
    """95 % percentile interval of the median of all values (Efron 1979): resample, take the median each time.

    Values of one group share what the group has in common, so whole groups are drawn. Of one group alone its
    values are.
    """
    drawn = groups if len(groups) > 1 else [[value] for value in groups[0]]
    generator = random.Random(seed)
    medians = sorted(median(chain.from_iterable(generator.choices(drawn, k=len(drawn)))) for _ in range(resamples))
    return medians[round(0.025 * (resamples - 1))], medians[round(0.975 * (resamples - 1))]
