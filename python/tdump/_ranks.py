"""Which rank this process is, for what a program asks of some ranks only. Imports neither torch nor tdump's runtime."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterable

# As coordinator/identity.cc: what is nearest to the process first.
_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
_WORLD = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")

Ranks = int | Iterable[int] | str | None  # one, several, "all" or None for all


def rank() -> int:
    group = _process_group()
    return group.get_rank() if group is not None else _number(_RANK, 0)


def world() -> int:
    group = _process_group()
    return group.get_world_size() if group is not None else _number(_WORLD, 1)


def as_text(ranks: Ranks) -> str:
    """``"all"`` or ``"0,3"``."""
    if ranks is None:
        return "all"
    if isinstance(ranks, str):
        return ranks
    if isinstance(ranks, int):
        return str(ranks)
    if not isinstance(ranks, Iterable):
        return str(operator.index(ranks))
    return ",".join([str(number) for number in ranks])


def includes(text: str) -> bool:
    """Whether this process is among the ranks that ``as_text`` wrote."""
    if text == "all":
        return True
    try:
        return rank() in [int(number) for number in text.split(",") if text]
    except ValueError:
        raise ValueError(f"ranks {text!r}: neither numbers of ranks nor 'all'") from None


def _process_group():
    distributed = sys.modules.get("torch.distributed")
    usable = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return distributed if usable else None


def _number(names: tuple[str, ...], otherwise: int) -> int:
    for name in names:
        if os.environ.get(name, "").isdecimal():
            return int(os.environ[name])
    return otherwise
