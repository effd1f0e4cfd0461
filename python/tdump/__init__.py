"""tdump: record what the operators of a distributed job computed, and read it back.

In a job: ``step``, ``tap``, ``watch``. They do nothing where tdump does not run or torch is missing.
"""

from __future__ import annotations

from tdump._api import step, tap, watch

__all__ = ["step", "tap", "watch"]
