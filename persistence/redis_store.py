"""The store on Redis 6.2 or later, or Valkey."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from holdfast.cipher import Cipher, CipherAt
from holdfast.conversation.terms.budget import DAY_MS, DaySpent, Spent
from holdfast.counting import Counts
from holdfast.errors import CorruptStore

from . import codec, redis_scripts, redis_values
from .access import COST, MOST_API_KEYS, TOKENS, WINDOW_MS, ApiKey, Exceeded, Ticket, Used, Want, too_many_keys
from .directory import Binding, Living
from .keys import BUCKETS
from .lists import Rebuilt
from .redis_connection import translated
from .redis_conversations import RedisConversations
from .redis_database import RETRY_S, checked
from .redis_index import IndexRebuild
from .redis_lists import RedisLists
from .redis_outbox import RedisOutbox
from .redis_presence import RedisPresence
from .redis_runs import RedisRuns
from .store import Store

logger = logging.getLogger("holdfast.persistence")

SUMS = ("tokens", "nano_usd")


def _used(fields: dict[bytes, bytes]) -> Used:
    amounts = {
        name.decode(errors="replace"): codec.number_of(value, "what a key has used")
        for name, value in fields.items()
        if not name.startswith(b"@")
    }
    return Used(amounts, codec.number_of(fields.get(b"@", b"0"), "what a key has used"))


def _spent(found: Sequence[bytes | None] | CorruptStore) -> Spent:
    """The sums of a bucket; nothing if they cannot be read: one bucket of an agent's holds none of its turns up."""
    try:
        if isinstance(found, CorruptStore):
            raise found
        numbers = [codec.number_of(value or b"0", "what an agent has used") for value in found]
    except CorruptStore as error:
        logger.error("a part of what an agent has used today counts nothing: %s", error)  # noqa: TRY400 - it is told whole
        return Spent()
    return Spent(**dict(zip(SUMS, numbers, strict=True)))


class RedisStore(RedisConversations, RedisRuns, RedisLists, RedisOutbox, RedisPresence):
    """The verbs of `Store`, in Redis. Operations are idempotent, and repeated for a while on a broken connection."""

    async def reindex(self) -> AsyncIterator[Rebuilt]:
        await self._script("raise", [self._keys.meta("layout")], [redis_values.INDEX_VERSION])
        rebuild = IndexRebuild(self._redis, self._keys, script=self._script, load=self.load)
        async with translated():
            async for rebuilt in rebuild.run():
                yield rebuilt
        if rebuild.complete:
            await self._do(lambda: self._redis.hset(self._keys.meta("layout"), "complete", redis_values.INDEX_VERSION))

    async def offer(self, actor: str, since: int | None) -> bool:
        key = self._keys.meta("standby")
        if since is None:
            return bool(await self._do(lambda: self._redis.zrem(key, actor)))
        await self._do(lambda: self._redis.zadd(key, {actor: since}))
        return True

    async def take(self, most: int = 1, *, kept: bool = False) -> Sequence[str]:
        keys = [self._keys.meta("standby")]
        async with translated():  # not repeated: a repetition after a lost reply would take other actors
            answer = await redis_scripts.run(self._redis, "take", keys, [most, int(kept)])
        return [name.decode() for name in checked(answer, keys)[1:]]

    async def offers(self) -> int:
        return int(await self._do(lambda: self._redis.zcard(self._keys.meta("standby"))))

    async def heartbeat(self, actor: str, *, limit: int) -> bool:
        answer = await self._script("heartbeat", [self._keys.meta("living")], [actor, limit])
        return bool(answer[0] == b"ok")

    async def deregister(self, actor: str) -> None:
        living, hosting = self._keys.meta("living"), self._keys.meta("hosting")
        await self._pipe(lambda pipe: [pipe.zrem(living, actor), pipe.hdel(hosting, actor)], atomic=True)

    async def live(self, *, quiet_ms: int = 0) -> Mapping[str, Living]:
        heard_before = await self.now() - quiet_ms
        living, hosting = self._keys.meta("living"), self._keys.meta("hosting")
        actors, hosted = await self._pipe(
            lambda pipe: [pipe.zrangebyscore(living, "-inf", heard_before, withscores=True), pipe.hgetall(hosting)], atomic=True
        )
        hosts = {name: found.decode(errors="replace") for name, found in hosted.items()}
        return {name.decode(errors="replace"): Living(int(at), hosts.get(name)) for name, at in actors}

    async def bind(self, cluster: str, address: str, stale_ms: int, *, gone: Sequence[str] = ()) -> Binding | None:
        answer = await self._script("bind", [self._keys.meta("cluster")], [cluster, address, stale_ms, *gone])
        if answer[0] == b"bound":
            return Binding(answer[1].decode(), answer[2].decode(), int(answer[3]))
        return None

    async def unbind(self, cluster: str) -> None:
        await self._script("unbind", [self._keys.meta("cluster")], [cluster])

    async def serve(self, release: str, *, before: str | None) -> bool:
        answer = await self._script("serve", [self._keys.meta("release")], [release, before or ""])
        return bool(answer[0] == b"ok")

    async def put_api_key(self, key: ApiKey) -> None:
        answer = await self._script("put_api_key", [self._of_keys[0]], [key.key_id, codec.encode(key), MOST_API_KEYS])
        if answer[0] == b"full":
            raise too_many_keys()

    async def note_api_key_use(self, key_id: str, at: int) -> None:
        await self._script("note_api_key_use", list(self._of_keys), [key_id, at])

    async def put_ticket(self, ticket: Ticket) -> None:
        place, data = self._ticket_place(ticket.digest), codec.encode(ticket)
        await self._do(lambda: self._redis.set(place, data, pxat=max(ticket.expires_at, 1)))

    async def ticket(self, digest: str) -> Ticket | None:
        data = await self._do(lambda: self._redis.get(self._ticket_place(digest)))
        return None if data is None else codec.decode(Ticket, data)

    async def remove_ticket(self, digest: str) -> bool:
        return bool(await self._do(lambda: self._redis.delete(self._ticket_place(digest))))

    def _ticket_place(self, digest: str) -> str:
        return self._keys.meta(f"ticket:{digest}")

    async def use(self, key_id: str, request: str, wants: Sequence[Want]) -> Exceeded | None:
        answer = await self._use(key_id, request, [part for want in wants for part in want])
        return Exceeded(answer[1].decode(), int(answer[2]), int(answer[3])) if answer[0] == b"exceeded" else None

    async def used(self, key_ids: Sequence[str]) -> Sequence[Used]:
        if not key_ids:
            return []
        found = await self._pipe(lambda pipe: [pipe.hgetall(self._used_place(key_id)) for key_id in key_ids])
        return [_used(fields) for fields in found]

    async def charge(self, conversation_id: str, key_id: str) -> None:
        await self._do(lambda: self._redis.hsetnx(self._keys.head(conversation_id), "charged_to", key_id))

    async def spend(self, conversation_id: str, tokens: int, nano_usd: int) -> None:
        key_id = await self._do(lambda: self._redis.hget(self._keys.head(conversation_id), "charged_to"))
        if key_id is not None:
            await self._use(key_id.decode(errors="replace"), "", [TOKENS, tokens, "", COST, nano_usd, ""])

    async def spent(self, agent: str) -> DaySpent:
        day = await self.now() // DAY_MS
        places = [self._keys.spent(bucket, agent, day) for bucket in range(BUCKETS)]
        found = await self._each(lambda pipe: [pipe.hmget(place, *SUMS) for place in places])
        return DaySpent(day, sum(map(_spent, found), Spent()))

    async def _use(self, key_id: str, request: str, wants: list[str | int]) -> list[Any]:
        return await self._script("use", [self._used_place(key_id)], [request, WINDOW_MS, *wants])

    def _used_place(self, key_id: str) -> str:
        return self._keys.meta(f"used:{key_id}")


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
