"""The store on Redis 6.2 or later, or Valkey."""

from collections.abc import AsyncIterator, Awaitable, Callable

from holdfast.cipher import Cipher, CipherAt
from holdfast.counting import Counts

from . import redis_values
from .lists import Rebuilt
from .redis_access import RedisAccess
from .redis_connection import translated
from .redis_conversations import RedisConversations
from .redis_database import RETRY_S
from .redis_directory import RedisDirectory
from .redis_index import IndexRebuild
from .redis_lists import RedisLists
from .redis_runs import RedisRuns
from .store import Store


class RedisStore(RedisConversations, RedisRuns, RedisLists, RedisDirectory, RedisAccess):
    """The verbs of `Store`, in Redis. Operations are idempotent, and repeated for a while on a broken connection."""

    async def reindex(self) -> AsyncIterator[Rebuilt]:
        await self._script("raise", [self._keys.meta("layout")], [redis_values.INDEX_VERSION])
        rebuild = IndexRebuild(self._redis, self._keys, script=self._script, load=self.load)
        async with translated():
            async for rebuilt in rebuild.run():
                yield rebuilt


def opened(
    url: str,
    *,
    namespace: str = "holdfast",
    store_id: str | None = None,
    cipher: Cipher | CipherAt | None = None,
    counts: Counts | None = None,
    revive: Callable[[], Awaitable[bool]] | None = None,
    retry_s: float = RETRY_S,
) -> Store:
    """The store at a URL. It connects when it is first used, and `Store.open` creates the namespace.

    Args:
        url: The Redis: `redis://`, `rediss://` or `unix://`.
        namespace: The namespace.
        store_id: The id that the store must have; None accepts any store.
        cipher: The cipher of payloads, or its import path.
        counts: Collects the durations of operations.
        revive: Called when the server seems dead; true if it runs again.
        retry_s: Seconds for which an operation is repeated before its outcome is reported as unknown.

    Raises:
        ConfigurationError: The URL or the namespace cannot be used.
    """
    return RedisStore(url, namespace=namespace, store_id=store_id, cipher=cipher, counts=counts, revive=revive, retry_s=retry_s)
