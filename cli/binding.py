"""Which Ray cluster a store is bound to, and which release serves it, read without touching it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from holdfast.conversation import CorruptStore
from holdfast.persistence import Binding, redis_values
from holdfast.persistence.keys import STORE_ID, Keys
from holdfast.persistence.redis_connection import client, translated

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Standing:
    """A store's id, the binding that stands, and the release of Holdfast that serves it; None for what there is not."""

    store_id: str | None = None
    bound: Binding | None = None
    release: str | None = None


async def standing_of(url: str, namespace: str) -> Standing:
    """How a store stands to clusters and releases.

    Raises:
        StoreUnavailable: Redis does not answer.
        CorruptStore: Not all of it can be read.
    """
    standing, wrong = await readable_standing_of(url, namespace)
    for error in wrong.values():
        raise error
    return standing


async def readable_standing_of(url: str, namespace: str) -> tuple[Standing, dict[str, CorruptStore]]:
    """As much of how a store stands as can be read, and what is wrong with the rest, by key.

    Raises:
        StoreUnavailable: Redis does not answer.
    """
    redis, keys = client(url, lambda: None), Keys(namespace)
    wrong: dict[str, CorruptStore] = {}

    async def read(key: str, reading: Callable[[str], Awaitable[_T]]) -> _T | None:
        try:
            async with translated():
                return await reading(key)
        except CorruptStore as error:
            wrong[key] = CorruptStore(f"{key}: {error.what}")
            return None

    cluster = keys.meta("cluster")
    try:
        found = await read(cluster, lambda key: redis.hmget(key, ["cluster", "address", "at"]))
        release = await read(keys.meta("release"), lambda key: redis.hget(key, "release"))
        store_id = await read(STORE_ID, redis.get)
        async with translated():
            seconds, micros = await redis.time()
    finally:
        await redis.aclose()
    bound = None
    try:
        bound = redis_values.binding_of(found or (None, None, None), seconds * 1000 + micros // 1000)
    except (CorruptStore, ValueError):  # of what is no text, or of more digits than a number has
        wrong[cluster] = CorruptStore(f"{cluster}: the binding cannot be read")
    return Standing(
        store_id.decode(errors="replace") if store_id else None,
        bound,
        release.decode(errors="replace") if release else None,
    ), wrong
