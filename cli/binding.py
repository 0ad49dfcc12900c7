"""Which Ray cluster a store is bound to, and which release serves it, read without changing anything."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from holdfast.errors import CorruptStore
from holdfast.persistence import Binding, RedisStore
from holdfast.persistence.keys import STORE_ID, Keys

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class StoreStanding:
    """A store's id, the binding that stands, and the release of Holdfast that serves it; None for what there is not."""

    store_id: str | None = None
    bound: Binding | None = None
    release: str | None = None


async def store_standing(url: str, namespace: str) -> StoreStanding:
    """How a store stands to clusters and releases.

    Raises:
        StoreUnavailable: Redis does not answer.
        CorruptStore: Not all of it can be read.
    """
    standing, wrong = await readable_store_standing(url, namespace)
    for error in wrong.values():
        raise error
    return standing


async def readable_store_standing(url: str, namespace: str) -> tuple[StoreStanding, dict[str, CorruptStore]]:
    """As much of how a store stands as can be read, and what is wrong with the rest, by key.

    Raises:
        StoreUnavailable: Redis does not answer.
    """
    store, keys = RedisStore(url, namespace=namespace), Keys(namespace)
    wrong: dict[str, CorruptStore] = {}

    async def read(key: str, reading: Awaitable[_T]) -> _T | None:
        try:
            return await reading
        except CorruptStore as error:
            wrong[key] = CorruptStore(f"{key}: {error.what}")
            return None

    try:
        standing = StoreStanding(
            bound=await read(keys.meta("cluster"), store.binding()),
            release=await read(keys.meta("release"), store.serving()),
            store_id=await read(STORE_ID, store.identity()),
        )
    finally:
        await store.close()
    return standing, wrong
