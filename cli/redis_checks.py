"""The checks of `holdfast doctor` on Redis. They only read."""

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holdfast.errors import CorruptStore, HoldfastError, InvalidInput
from holdfast.persistence.keys import BUCKETS, STORE_ID, Keys
from holdfast.persistence.redis_connection import client, translated
from holdfast.persistence.redis_database import OLDEST_SERVER
from holdfast.persistence.redis_values import LAYOUT_VERSION

from . import headroom
from .check import Check, fail, judged, ok, warn
from .known_holes import release_check
from .redis_doors import tcp_ports
from .redis_url import by_socket, masked, on_loopback, own_socket

CLOCK_MS = 2_000
"""The tolerated difference between a clock and Redis's, in milliseconds."""
_SETTINGS = ("appendonly", "appendfsync", "maxmemory-policy", "min-replicas-to-write", "dir")


@dataclass(frozen=True, slots=True)
class _Seen:
    """The answers of Redis; `settings` has those it reveals. `ahead_ms`: how far this machine's clock is ahead of Redis's."""

    info: Mapping[str, Any]
    settings: Mapping[str, str]
    store_id: str | CorruptStore | None
    layout: Mapping[str, str] | CorruptStore
    ahead_ms: int = 0
    uncertain_ms: int = 0


async def redis_checks(url: str, namespace: str) -> list[Check]:
    """The checks of the Redis at a URL."""
    try:
        seen = await _look(url, namespace)
    except InvalidInput as error:
        return [fail("redis", error.problem, error.fix)]
    except HoldfastError as error:
        fix = "start it, or correct --redis-url (HOLDFAST_REDIS_URL)"
        return [fail("redis", f"{masked(url)} does not answer as it should: {error}", fix, unreachable=True)]
    here = by_socket(url) or await on_loopback(urlsplit(url).hostname or "localhost")
    judgements: Mapping[str, Callable[[], Check]] = {
        "redis": lambda: _server(url, seen),
        "redis version": lambda: version(seen.info, private=own_socket(url) and tcp_ports(seen.info) == set()),
        "persistence": lambda: _persistence(seen),
        "eviction": lambda: _eviction(seen),
        "redis memory": lambda: headroom.memory(seen.info),
        "redis disk": lambda: _disk(seen, here=here),
        "replicas": lambda: _replicas(seen),
        "namespace": lambda: _namespace(namespace, seen),
        "clock": lambda: clock(seen.ahead_ms, seen.uncertain_ms),
    }
    return [judged(name, judging) for name, judging in judgements.items()]


async def _look(url: str, namespace: str) -> _Seen:
    settings: dict[str, str] = {}
    async with aclosing(client(url, lambda: None)) as redis:
        async with translated():
            info = await redis.info()
            before = time.time()
            seconds, micros = await redis.time()
            after = time.time()
        store_id = await _read(redis.get, STORE_ID)
        layout = await _read(redis.hgetall, Keys(namespace).meta("layout"))
        for name in _SETTINGS:
            with suppress(HoldfastError):  # a Redis service often forbids CONFIG
                async with translated():
                    found = await redis.config_get(name)
                settings |= {_text(key): _text(value) for key, value in found.items()}
    return _Seen(
        info,
        settings,
        store_id if store_id is None or isinstance(store_id, CorruptStore) else _text(store_id),
        layout if isinstance(layout, CorruptStore) else {_text(key): _text(value) for key, value in layout.items()},
        ahead_ms=round((before + after) * 500 - (seconds * 1000 + micros / 1000)),
        uncertain_ms=round((after - before) * 500) + 1,
    )


async def _read(read: Callable[[str], Awaitable[Any]], key: str) -> Any:
    """The value of a key; if the key has a foreign type, the `CorruptStore` instead: Redis did answer."""
    try:
        async with translated():
            return await read(key)
    except CorruptStore as error:
        return CorruptStore(f"{key}: {error.what}")


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _server(url: str, seen: _Seen) -> Check:
    version = str(seen.info.get("redis_version", "0"))
    unread = seen.store_id if isinstance(seen.store_id, CorruptStore) else None
    store = "a store whose id cannot be read" if unread is not None else f"store {seen.store_id or 'not made yet'}"
    valkey = seen.info.get("valkey_version")
    said = f"{f'Valkey {valkey}' if valkey else f'Redis {version}'} at {masked(url)}, {store}"
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < OLDEST_SERVER:
        return fail("redis", f"{said}: it is too old", "use Redis 6.2 or later, or Valkey")
    if seen.info.get("role") == "slave":
        return fail("redis", f"{said}: it is a read-only replica", "connect to the primary")
    if unread is not None:
        fix = f"connect to the server that has the store, or restore it; if it has none, delete {STORE_ID}"
        return fail("redis", str(unread), fix)
    return ok("redis", said)


def version(info: Mapping[str, Any], *, private: bool) -> Check:
    """The check of the server's release for known holes; `private` if only this user reaches it, by a socket."""
    server = "Valkey" if info.get("valkey_version") else "Redis"
    release = str(info.get("valkey_version") or info.get("redis_version", "0"))
    fix = ", unless your provider mends it under the old number"
    found = release_check("redis version", server, release, of=f"{server} ", fix=fix)
    if private and found.fix is not None:
        return ok(found.name, f"{found.said}; only this user reaches it, who may do anyway what they allow")
    return found


def _disk(seen: _Seen, *, here: bool) -> Check:
    folder = seen.settings.get("dir")
    if not here or not folder or not Path(folder).is_dir():
        where = f" ({folder})" if folder else ""
        return ok("redis disk", f"not seen from here: watch the free space of where Redis writes{where}")
    return headroom.disk("redis disk", Path(folder), needed=int(seen.info.get("used_memory_dataset", 0)))


def _persistence(seen: _Seen) -> Check:
    appends = seen.settings.get("appendonly", "yes" if seen.info.get("aof_enabled") else "no") == "yes"
    if not appends:
        fix = "redis-cli CONFIG SET appendonly yes; CONFIG SET appendfsync always; CONFIG REWRITE"
        return fail("persistence", "appendonly is off: acknowledged writes are lost when Redis restarts", fix)
    if seen.info.get("aof_last_write_status", "ok") != "ok":
        return fail("persistence", "Redis cannot write its append-only file", "free space on its disk, and read its log")
    if "appendfsync" not in seen.settings:
        fix = "make sure that the service writes to disk before it acknowledges, or has replicas that do"
        return warn("persistence", "appendonly is on; Redis does not tell its appendfsync", fix)
    if seen.settings["appendfsync"] != "always":
        problem = f"appendfsync is {seen.settings['appendfsync']}: the last moment before a power failure may be lost"
        return warn("persistence", problem, "redis-cli CONFIG SET appendfsync always; CONFIG REWRITE")
    return ok("persistence", "appendonly yes, appendfsync always")


def _eviction(seen: _Seen) -> Check:
    policy = seen.settings.get("maxmemory-policy", str(seen.info.get("maxmemory_policy", "unknown")))
    limit = int(seen.info.get("maxmemory", 0))
    said = f"maxmemory-policy {policy}, maxmemory {f'{limit:,} bytes' if limit else 'without limit'}"
    fix = "redis-cli CONFIG SET maxmemory-policy noeviction; CONFIG REWRITE"
    if policy == "noeviction":
        return ok("eviction", said)
    if limit and policy.startswith("allkeys"):
        return fail("eviction", f"{said}: Redis throws conversations away when it is full", fix)
    return warn("eviction", f"{said}: with a limit, Redis might throw conversations away", fix)


def _replicas(seen: _Seen) -> Check:
    count = int(seen.info.get("connected_slaves", 0))
    needed = seen.settings.get("min-replicas-to-write")
    if count == 0 and needed in (None, "0"):
        return ok("replicas", "none: acknowledged writes are as safe as this server's disk")
    said = f"{count} connected, min-replicas-to-write {needed or 'unknown'}"
    if needed in (None, "0"):
        problem = f"{said}: a failover may lose what only the primary had acknowledged"
        return warn("replicas", problem, "redis-cli CONFIG SET min-replicas-to-write 1; CONFIG REWRITE")
    problem = f"{said}: a failover loses at most what came within min-replicas-max-lag; Holdfast does not WAIT for each write"
    return warn("replicas", problem, "fail over by hand, to a replica that has caught up, where that is too much")


def _namespace(namespace: str, seen: _Seen) -> Check:
    if isinstance(seen.layout, CorruptStore):
        return fail("namespace", str(seen.layout), "restore the store, or use another namespace")
    if not seen.layout:
        return ok("namespace", f"{namespace}: nothing was ever stored in it")
    version, buckets = int(seen.layout.get("version", 0)), int(seen.layout.get("buckets", 0))
    said = f"{namespace}: layout {version}, {buckets} buckets"
    if version > LAYOUT_VERSION:
        return fail("namespace", f"{said}: a newer Holdfast wrote it", "upgrade Holdfast here")
    if buckets != BUCKETS:
        return fail("namespace", f"{said}, but this Holdfast uses {BUCKETS}", "use the Holdfast that wrote it")
    return ok("namespace", said)


def clock(ahead_ms: int, uncertain_ms: int) -> Check:
    """The check of this machine's clock, by how far it is ahead of Redis's."""
    if abs(ahead_ms) - uncertain_ms <= CLOCK_MS:
        return ok("clock", f"this machine's is {apart(ahead_ms)} Redis's")
    said = f"this machine's is {apart(ahead_ms)} Redis's, by which every deadline goes"
    return warn("clock", said, "have both keep time by NTP")


def apart(ahead_ms: int) -> str:
    """How far a clock is ahead of another, or behind it."""
    return f"{abs(ahead_ms) / 1000:.1f} s {'ahead of' if ahead_ms >= 0 else 'behind'}"
