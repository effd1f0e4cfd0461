"""Group `engine`: what capturing costs a job, and what is free when off."""

from __future__ import annotations

from engine.disk import NODE_FILE, WRITING
from engine.estimates import ESTIMATES
from engine.memory import MEMORY
from engine.programs import REJECTED, STATISTICS, TAP
from engine.steps import STEPS
from lib.measurement import Measurement

MEASUREMENTS: list[Measurement] = [*STEPS, TAP, REJECTED, WRITING, NODE_FILE, MEMORY, *STATISTICS, *ESTIMATES]
