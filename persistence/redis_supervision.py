"""What a store knows of actors that hang and of conversations that cannot be taken up."""

from collections.abc import Mapping, Sequence

from holdfast.conversation.idempotency import IdempotencyRecord
from holdfast.redaction import PLAIN

from .keys import bucket_of
from .payloads import Payloads
from .redis_meta import RedisMeta
from .supervision import TROUBLE_MS, TROUBLES, Trouble


class RedisSupervision(RedisMeta):
    """The verbs of `Supervision`."""

    async def known(self, conversation_id: str, keys: Sequence[str]) -> Mapping[str, IdempotencyRecord]:
        """See `Store.known`."""
        if not keys:
            return {}
        found = await self._do(lambda: self._redis.hmget(self._keys.known(conversation_id), list(keys)))
        return {
            key: self.payloads.open_known(conversation_id, key, data)
            for key, data in zip(keys, found, strict=True)
            if data is not None
        }

    async def hosts(self, actor: str, conversation_id: str | None) -> None:
        """See `Store.hosts`."""
        key = self._keys.meta("hosting")
        if conversation_id is None:
            await self._do(lambda: self._redis.hdel(key, actor))
        else:
            await self._do(lambda: self._redis.hset(key, actor, conversation_id))

    async def hosted(self, actor: str) -> str | None:
        """See `Store.hosted`."""
        found = await self._do(lambda: self._redis.hget(self._keys.meta("hosting"), actor))
        return found.decode() if found is not None else None

    async def postpone(self, conversation_id: str, delay_ms: int) -> None:
        """See `Store.postpone`."""
        keys = [self._keys.head(conversation_id), self._keys.attention(bucket_of(conversation_id))]
        await self._script("postpone", keys, [conversation_id, delay_ms])

    async def troubled(self, conversation_id: str, reason: str) -> int:
        """See `Store.troubled`."""
        text = self.payloads.seal_text(PLAIN.redacted(reason, 500), "trouble", conversation_id)
        answer = await self._script("troubled", [self._keys.meta("troubles")], [conversation_id, text, TROUBLES, TROUBLE_MS])
        return int(answer[1])

    async def untroubled(self, conversation_id: str) -> None:
        """See `Store.untroubled`."""
        await self._do(lambda: self._redis.hdel(self._keys.meta("troubles"), conversation_id))

    async def troubles(self) -> Sequence[Trouble]:
        """See `Store.troubles`."""
        now = await self.now()
        found = await self._do(lambda: self._redis.hgetall(self._keys.meta("troubles")))
        troubles = [_trouble(name.decode(errors="replace"), record, self.payloads) for name, record in found.items()]
        fresh = [trouble for trouble, last in filter(None, troubles) if last > now - TROUBLE_MS]
        return sorted(fresh, key=lambda trouble: trouble.since)


def _trouble(conversation_id: str, record: bytes, payloads: Payloads) -> tuple[Trouble, int] | None:
    """A trouble, and when it was last met; None if it cannot be read: it names no trouble, and stops nobody."""
    since, _, rest = record.partition(b"|")
    last, _, reason = rest.partition(b"|")
    if not (since.isdigit() and last.isdigit()):
        return None
    return Trouble(conversation_id, payloads.open_text(reason, "trouble", conversation_id), int(since)), int(last)
