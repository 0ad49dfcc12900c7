"""How much memory this process uses, and how many files it may open."""

import contextlib
import ctypes
import gc
import os
import resource
import sys
from functools import cache

import psutil
from pydantic import BaseModel

_ROOM = 1.5
_PART_BYTES = 200
_FILES = 256
"""Open files of a process beside those of its model calls: connections to Redis and Ray, and those of tools."""
_process = cache(psutil.Process)


def resident_mb() -> float:
    """The resident memory of this process in MiB."""
    return float(_process(os.getpid()).memory_info().rss) / 2**20


def allowed_mb(configured: float) -> float:
    """The MiB to which this process may grow, at least 1.5 times its size now: a large app must not be replaced endlessly."""
    return max(configured, _ROOM * resident_mb())


def free_files() -> int:
    """How many files beside `_FILES` this process may have open, once it may have as many as its user: most begin with 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # some systems refuse so many
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(soft - _FILES, 1)


def trim() -> None:
    """Give what imports have left free back to the system, a tenth of a process or more, if its C library can (glibc)."""
    getattr(ctypes.CDLL(None), "malloc_trim", int)(0)


def keep_imported() -> None:
    """Spare the garbage collector the walk through what exists by now, most of it imported: for a process of our own."""
    gc.freeze()


def footprint(value: object) -> int:
    """About how many bytes of memory a record takes: its texts, and a fixed size for each of its parts."""
    if isinstance(value, str):
        return sys.getsizeof(value)
    parts = vars(value).values() if isinstance(value, BaseModel) else value if isinstance(value, tuple) else None
    return 0 if parts is None else _PART_BYTES + sum(map(footprint, parts))
