"""The store on Redis 6.2 or later, or Valkey."""

from collections.abc import AsyncIterator

from . import redis_values
from .lists import Rebuilt
from .redis_access import RedisAccess
from .redis_connection import translated
from .redis_conversations import RedisConversations
from .redis_directory import RedisDirectory
from .redis_index import IndexRebuild
from .redis_lists import RedisLists
from .redis_runs import RedisRuns
from .redis_tallies import RedisTallies


class RedisStore(RedisConversations, RedisRuns, RedisLists, RedisDirectory, RedisTallies, RedisAccess):
    """The verbs of `Store`, in Redis. Operations are idempotent, and repeated for a while on a broken connection."""

    async def reindex(self) -> AsyncIterator[Rebuilt]:
        await self._script("raise", [self._keys.meta("layout")], [redis_values.INDEX_VERSION])
        rebuild = IndexRebuild(self._redis, self._keys, script=self._script, load=self.load)
        async with translated():
            async for rebuilt in rebuild.run():
                yield rebuilt
