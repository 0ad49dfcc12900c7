"""Runs in Redis: their records, their progress and their live events."""

from collections.abc import AsyncIterator, Mapping

from . import redis_values
from .redis_connection import translated
from .redis_database import RedisDatabase
from .runs import PROGRESS_MS, Late, Run


class RedisRuns(RedisDatabase):
    """The verbs of `Runs`, in Redis."""

    async def claim(
        self, conversation_id: str, effect_id: str, *, incarnation: str, worker: str, until: int | None = None
    ) -> bool:
        """See `Store.claim`."""
        args: list[str | bytes | int] = [effect_id, incarnation, worker, "" if until is None else until]
        answer = await self._script("claim", [self._keys.runs(conversation_id)], args)
        return bool(answer[0] == b"ok")

    async def finish(self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes) -> bool:
        """See `Store.finish`."""
        keys = [self._keys.runs(conversation_id), self._keys.late(conversation_id), self._keys.log(conversation_id)]
        sealed = self.payloads.seal_outcome(conversation_id, effect_id, outcome)
        answer = await self._script("finish", keys, [effect_id, incarnation, sealed])
        return bool(answer[0] == b"ok")

    async def run(self, conversation_id: str, effect_id: str) -> Run | None:
        """See `Store.run`."""
        record = await self._do(lambda: self._redis.hget(self._keys.runs(conversation_id), effect_id))
        return redis_values.run_of(conversation_id, effect_id, record, self.payloads) if record is not None else None

    async def late(self, conversation_id: str) -> Mapping[str, Late]:
        """See `Store.late`."""
        found = await self._do(lambda: self._redis.hgetall(self._keys.late(conversation_id)))
        return {
            name: redis_values.late_of(conversation_id, name, record, self.payloads)
            for name, record in ((effect_id.decode(), record) for effect_id, record in found.items())
        }

    async def attest(self, incarnation: str, lease_ms: int) -> None:
        """See `Store.attest`."""
        await self._do(lambda: self._redis.set(self._keys.meta(f"incarnation:{incarnation}"), b"", px=lease_ms))

    async def attested(self, incarnation: str) -> bool:
        """See `Store.attested`."""
        return bool(await self._do(lambda: self._redis.exists(self._keys.meta(f"incarnation:{incarnation}"))))

    async def keep_progress(self, conversation_id: str, effect_id: str, payload: bytes) -> bool:
        """See `Store.keep_progress`."""
        keys = [self._keys.runs(conversation_id), self._keys.progress(conversation_id)]
        sealed = self.payloads.seal(payload, "progress", conversation_id, effect_id)
        answer = await self._script("progress", keys, [effect_id, sealed, PROGRESS_MS])
        return bool(answer[0] == b"ok")

    async def progress(self, conversation_id: str) -> Mapping[str, bytes]:
        """See `Store.progress`."""
        found = await self._do(lambda: self._redis.hgetall(self._keys.progress(conversation_id)))
        return {
            name: self.payloads.open_or_leave(payload, "progress", conversation_id, name)
            for name, payload in ((effect_id.decode(), payload) for effect_id, payload in found.items())
        }

    async def publish(self, conversation_id: str, payload: bytes) -> None:
        """See `Store.publish`."""
        sealed = self.payloads.seal(payload, "live", conversation_id)
        async with translated():
            await self._redis.publish(self._keys.live(conversation_id), sealed)

    async def listen(self, conversation_id: str) -> AsyncIterator[bytes]:
        """See `Store.listen`."""
        pubsub = self._blocking.pubsub(ignore_subscribe_messages=True)
        try:
            async with translated():
                await pubsub.subscribe(self._keys.live(conversation_id))
            while True:
                async with translated():
                    message = await pubsub.get_message(timeout=30)
                if message is not None:
                    yield self.payloads.open_or_leave(message["data"], "live", conversation_id)
        finally:
            await pubsub.aclose()
