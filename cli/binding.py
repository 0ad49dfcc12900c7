"""Which Ray cluster a store is bound to, read without touching it."""

from dataclasses import dataclass

from holdfast.persistence.keys import STORE_ID, Keys
from holdfast.persistence.redis_connection import client, translated


@dataclass(frozen=True, slots=True)
class Binding:
    """A store's cluster: its id, its address, and how long ago it last said so, by Redis's clock."""

    cluster: str
    address: str
    age_ms: int


async def binding_of(url: str, namespace: str) -> tuple[str | None, Binding | None]:
    """The store's id, and the binding that stands; None for what there is not.

    Raises:
        StoreUnavailable: Redis does not answer.
    """
    redis = client(url, lambda: None)
    try:
        async with translated():
            found = await redis.hmget(Keys(namespace).meta("cluster"), ["cluster", "address", "at"])
            store_id = await redis.get(STORE_ID)
            seconds, micros = await redis.time()
    finally:
        await redis.aclose()
    bound = None
    if None not in found:
        bound = Binding(found[0].decode(), found[1].decode(), seconds * 1000 + micros // 1000 - int(found[2]))
    return (store_id.decode() if store_id else None), bound
