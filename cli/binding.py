"""Which Ray cluster a store is bound to, and which release serves it, read without touching it."""

from dataclasses import dataclass

from holdfast.persistence import Binding, redis_values
from holdfast.persistence.keys import STORE_ID, Keys
from holdfast.persistence.redis_connection import client, translated


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
        CorruptStore: The binding cannot be read.
    """
    redis, keys = client(url, lambda: None), Keys(namespace)
    try:
        async with translated():
            found = await redis.hmget(keys.meta("cluster"), ["cluster", "address", "at"])
            release = await redis.hget(keys.meta("release"), "release")
            store_id = await redis.get(STORE_ID)
            seconds, micros = await redis.time()
    finally:
        await redis.aclose()
    bound = redis_values.binding_of(found, seconds * 1000 + micros // 1000)
    return Standing(store_id.decode() if store_id else None, bound, release.decode() if release else None)
