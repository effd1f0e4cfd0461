"""Group `modes`: what capturing costs a model that does not run operator by operator."""

from __future__ import annotations

from lib.measurement import Measurement
from modes.compiled import COMPILED

MEASUREMENTS: list[Measurement] = COMPILED
