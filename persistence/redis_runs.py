"""Work records, progress and live events in Redis."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from holdfast.conversation import Event

from . import codec, redis_values
from .redis_connection import SOCKET_TIMEOUT_S, translated
from .redis_database import RedisDatabase
from .runs import CLAIMS_MS, PROGRESS_MS, Late, Run


class RedisRuns(RedisDatabase):
    """The verbs of `Runs`, in Redis."""

    async def claim(
        self,
        conversation_id: str,
        effect_id: str,
        *,
        incarnation: str,
        worker: str,
        until: int | None = None,
        bound_ms: int = 0,
        instead_of: str = "",
        epoch: int | None = None,
        follows: tuple[int, Event] | None = None,
    ) -> bool:
        args = effect_id, incarnation, worker, until, bound_ms, instead_of, epoch, follows[0] if follows is not None else 0
        answer = await self._on(conversation_id, "claim", *args)
        if answer[0] != b"ok":
            return False
        stays = follows is None
        try:
            stays = follows is None or self._holds(conversation_id, follows, answer[1])
        finally:  # also if the entry cannot be read: a claim that nobody works on would count as a lost run
            if not stays:
                await self._on(conversation_id, "unclaim", effect_id, incarnation)
        return stays

    def _holds(self, conversation_id: str, follows: tuple[int, Event], flat: Sequence[bytes]) -> bool:
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        return bool(fields) and redis_values.event_of(conversation_id, follows[0], fields, self.payloads) == follows[1]

    async def finish(
        self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes, keeps_late: bool = True
    ) -> bool:
        sealed = self.payloads.seal_outcome(conversation_id, effect_id, outcome)
        args = effect_id, incarnation, sealed, keeps_late, conversation_id, self._keys.meta("outcomes")
        return await self._did(conversation_id, "finish", *args)

    async def refuse(self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes) -> bool:
        sealed = self.payloads.seal_outcome(conversation_id, effect_id, outcome)
        args = effect_id, incarnation, sealed, conversation_id, self._keys.meta("outcomes")
        return await self._did(conversation_id, "refuse", *args)

    async def give_back(self, conversation_id: str, effect_id: str, *, incarnation: str) -> bool:
        args = effect_id, incarnation, conversation_id, self._keys.meta("outcomes")
        return await self._did(conversation_id, "give_back", *args)

    async def claims_stand(self, claims: Sequence[tuple[str, str, str]]) -> Sequence[bool]:
        if not claims:
            return []

        records = await self._pipe(lambda pipe: [pipe.hget(self._keys.runs(name), effect_id) for name, effect_id, _ in claims])
        return [
            record is not None and record.startswith((f"B|{incarnation}|".encode(), f"C|{incarnation}|".encode()))
            for record, (_, _, incarnation) in zip(records, claims, strict=True)
        ]

    async def outcomes(self) -> AsyncIterator[str]:
        async with self._broadcasts.listening(self._keys.meta("outcomes")) as listener:
            while True:
                told = await listener.message()
                if told is not None:  # conversations missed in a gap are found when they need attention
                    yield told.decode(errors="replace")

    async def run(self, conversation_id: str, effect_id: str) -> Run | None:
        record = await self._do(lambda: self._redis.hget(self._keys.runs(conversation_id), effect_id))
        return redis_values.run_of(conversation_id, effect_id, record, self.payloads) if record is not None else None

    async def abandoned(self, conversation_id: str) -> Mapping[str, str]:
        found = await self._do(lambda: self._redis.hgetall(self._keys.abandoned(conversation_id)))
        now = await self.now() if found else 0
        claims = {name.decode(): record.decode(errors="replace").partition("|")[::2] for name, record in found.items()}
        return {name: incarnation for name, (incarnation, until) in claims.items() if not until.isdigit() or int(until) > now}

    async def late(self, conversation_id: str) -> Mapping[str, Late]:
        found = await self._do(lambda: self._redis.hgetall(self._keys.late(conversation_id)))
        return {
            name: redis_values.late_of(conversation_id, name, record, self.payloads)
            for name, record in ((effect_id.decode(), record) for effect_id, record in found.items())
        }

    async def attest(self, incarnation: str, lease_ms: int, *, claims: int = 1) -> None:
        lives, has = self._keys.meta(f"incarnation:{incarnation}"), self._keys.meta(f"company:{incarnation}")
        await self._pipe(lambda pipe: [pipe.set(lives, b"", px=lease_ms), pipe.set(has, claims, px=CLAIMS_MS)])

    async def claims_of(self, incarnation: str) -> int:
        found = await self._do(lambda: self._redis.get(self._keys.meta(f"company:{incarnation}")))
        return codec.number_of(found or b"1", "the number of an incarnation's claims")

    async def attested(self, incarnation: str) -> bool:
        return bool(await self._do(lambda: self._redis.exists(self._keys.meta(f"incarnation:{incarnation}"))))

    async def keep_progress(self, conversation_id: str, effect_id: str, payload: bytes) -> bool:
        sealed = self.payloads.seal(payload, "progress", conversation_id, effect_id)
        return await self._did(conversation_id, "progress", effect_id, sealed, PROGRESS_MS)

    async def progress(self, conversation_id: str) -> Mapping[str, bytes]:
        found = await self._do(lambda: self._redis.hgetall(self._keys.progress(conversation_id)))
        return {
            name: self.payloads.open_or_leave(payload, "progress", conversation_id, name)
            for name, payload in ((effect_id.decode(), payload) for effect_id, payload in found.items())
        }

    async def publish(self, conversation_id: str, payload: bytes) -> bool:
        sealed = self.payloads.seal(payload, "live", conversation_id)
        async with translated(), self._room, asyncio.timeout(SOCKET_TIMEOUT_S):
            return bool(await self._redis.publish(self._keys.live(conversation_id), sealed))

    async def listen(self, conversation_id: str) -> AsyncIterator[bytes]:
        async with self._broadcasts.listening(self._keys.live(conversation_id)) as listener:
            while True:
                told = await listener.message()
                if told is not None and told != redis_values.NEWS:
                    yield self.payloads.open_or_leave(told, "live", conversation_id)
