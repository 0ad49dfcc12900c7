"""How much memory this process uses."""

import os
import sys
from functools import cache

import psutil
from pydantic import BaseModel

_ROOM = 1.5
_PART_BYTES = 200
_process = cache(psutil.Process)


def resident_mb() -> float:
    """The resident memory of this process in MiB."""
    return float(_process(os.getpid()).memory_info().rss) / 2**20


def allowed_mb(configured: float) -> float:
    """The MiB to which this process may grow, at least 1.5 times its size now: a large app must not be replaced endlessly."""
    return max(configured, _ROOM * resident_mb())


def footprint(value: object) -> int:
    """About how many bytes of memory a record takes: its texts, and a fixed size for each of its parts."""
    if isinstance(value, str):
        return sys.getsizeof(value)
    if isinstance(value, tuple):
        return _PART_BYTES + sum(footprint(item) for item in value)
    if isinstance(value, BaseModel):
        return _PART_BYTES + sum(footprint(item) for item in value.__dict__.values())
    return 0
