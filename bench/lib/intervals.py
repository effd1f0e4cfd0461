"""Medians of pairs and how sure they are."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median


def bootstrap(values: Sequence[float], resamples: int = 2000, seed: int = 1) -> tuple[float, float]:
    """95 % percentile interval of the median (Efron 1979): resample the pairs, take the median each time."""
    generator = random.Random(seed)
    medians = sorted(median(generator.choices(values, k=len(values))) for _ in range(resamples))
    return medians[round(0.025 * (resamples - 1))], medians[round(0.975 * (resamples - 1))]
