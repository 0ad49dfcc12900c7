"""The Ray cluster that a store is bound to, and the release that serves it, read without changing anything."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from holdfast.errors import CorruptStore
from holdfast.persistence import Binding, opened
from holdfast.persistence.keys import STORE_ID, Keys

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class StoreStanding:
    """A store's id, its binding to a cluster, and the release of Holdfast that serves it; each None where it is missing."""

    store_id: str | None = None
    bound: Binding | None = None
    release: str | None = None


async def store_standing(url: str, namespace: str) -> StoreStanding:
    """The id, binding and release of a store."""
    standing, wrong = await readable_store_standing(url, namespace)
    for error in wrong.values():
        raise error
    return standing


async def readable_store_standing(url: str, namespace: str) -> tuple[StoreStanding, dict[str, CorruptStore]]:
    """The readable ones of a store's id, binding and release, and the errors of the others, by key."""
    store, keys = opened(url, namespace=namespace), Keys(namespace)
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
