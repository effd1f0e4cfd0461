"""Group `compare`: how long tdump-diff takes, and what memory it needs."""

from __future__ import annotations

from compare.scale import COPIES, ONE_AGAINST_MANY, RANKS
from compare.values import EQUAL, METRICS
from lib.measurement import Measurement

MEASUREMENTS: list[Measurement] = [METRICS, EQUAL, RANKS, ONE_AGAINST_MANY, COPIES]
