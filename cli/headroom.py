"""The checks of free room: the machine's load, memory and disk of Redis, the stored amount, and its growth per day."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.filesize import decimal as size

from holdfast.machine_load import TOO_MUCH, MachineLoad
from holdfast.persistence import Census

from .check import Check, fail, ok, warn

FULL, NEARLY_FULL = 0.9, 0.75
"""The shares of its memory at which Redis's use is a failure, and a warning."""
SOON_DAYS = 14
FREE_BYTES, LEAST_BYTES = 1 << 30, 100 << 20
"""The bytes of a disk that should be free, and must be."""
DAY_MS = 86_400_000
RELIEVED = "end what else runs there, or add cores: until then starts and deadlines wait, and processes take minutes to start"


def load(found: MachineLoad | None) -> Check:
    """The check of this machine's load."""
    if found is None:
        return ok("load", "this machine does not report its load")
    waiting = "" if found.waiting is None else f"; something waited for a core {found.waiting:.0%} of the last ten seconds"
    if found.is_too_much:
        return warn("load", f"this machine is overloaded: {found}, {TOO_MUCH:g} for each is too much{waiting}", RELIEVED)
    return ok("load", f"{found}{waiting}")


def memory(info: Mapping[str, Any]) -> Check:
    """The check of Redis's memory, by its INFO."""
    used, limit, machine = (int(info.get(name, 0)) for name in ("used_memory", "maxmemory", "total_system_memory"))
    room, of = (limit, "maxmemory") if limit else (machine, "its machine's memory")
    if not used or not room:
        return ok("redis memory", f"{size(used)} used; Redis does not say how much it may use")
    share = used / room
    said = f"{size(used)} used, {share:.0%} of {of} ({size(room)})"
    fix = "raise maxmemory or give it more memory: a full Redis refuses every write"
    if share >= FULL:
        return fail("redis memory", said, fix)
    return warn("redis memory", said, fix) if share >= NEARLY_FULL else ok("redis memory", said)


def stored(info: Mapping[str, Any], census: Census) -> Check:
    """The check of the stored amount: its size, its growth per day, and when that fills the memory.

    The growth is that of the conversations started within a day, each of average size; older ones may grow in addition.
    """
    data = int(info.get("used_memory_dataset", 0))
    each = data / census.conversations if census.conversations else 0
    daily = round(census.begun * each)
    said = (
        f"{census.conversations:,} conversations, {census.pending:,} pending calls; {size(data)} in all of this Redis;"
        f" {census.begun:,} started within a day, at most about {size(daily)}; up to {census.fullest:,} in one of 64 buckets"
    )
    limit = int(info.get("maxmemory", 0)) or int(info.get("total_system_memory", 0))
    days = (limit - int(info.get("used_memory", 0))) / daily if daily and limit else None
    if days is not None and days < SOON_DAYS:
        fix = "give Redis more memory: nothing is deleted by itself"
        return warn("stored", f"{said}; at this pace the memory is full in {max(days, 0):.0f} days", fix)
    return ok("stored", said)


def disk(name: str, folder: Path, *, needed: int = 0) -> Check:
    """The check of a disk of this machine; `needed` is the size (bytes) of a rewrite of the append-only file."""
    free = shutil.disk_usage(folder).free
    wanted = max(FREE_BYTES, needed)
    said = f"{size(free)} free at {folder}" + (f", {size(needed)} needed to rewrite the append-only file" if needed else "")
    fix = "make room there: Redis ends itself when its disk is full"
    if free < max(LEAST_BYTES, min(needed, FREE_BYTES)):
        return fail(name, said, fix)
    return warn(name, said, fix) if free < wanted else ok(name, said)
