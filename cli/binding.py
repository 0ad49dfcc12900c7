"""Which Ray cluster a store is bound to, read without touching it."""

from dataclasses import dataclass

from holdfast.persistence.keys import Keys
from holdfast.persistence.redis_connection import client, translated


@dataclass(frozen=True, slots=True)
class Binding:
    """A store's cluster: its id, its address, and when it last said so (integer milliseconds UTC, by Redis's clock)."""

    cluster: str
    address: str
    at: int


async def binding_of(url: str, namespace: str) -> Binding | None:
    """The binding that stands, None if there is none.

    Raises:
        StoreUnavailable: Redis does not answer.
    """
    redis = client(url, lambda: None)
    try:
        async with translated():
            found = await redis.hmget(Keys(namespace).meta("cluster"), ["cluster", "address", "at"])
    finally:
        await redis.aclose()
    return None if None in found else Binding(found[0].decode(), found[1].decode(), int(found[2]))
