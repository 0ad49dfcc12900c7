"""The records of work in Redis, with its progress and its live events."""

from collections.abc import AsyncIterator, Mapping, Sequence

from holdfast.conversation import Event

from . import redis_values
from .keys import bucket_of
from .redis_connection import translated
from .redis_database import RedisDatabase
from .runs import COMPANY_MS, PROGRESS_MS, Late, Run


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
        """See `Store.claim`."""
        allowed = "" if until is None else until
        stated = "" if epoch is None else epoch
        place = follows[0] if follows is not None else 0
        args: list[str | bytes | int] = [effect_id, incarnation, worker, allowed, bound_ms, instead_of, stated, place]
        runs = self._keys.runs(conversation_id)
        keys = [runs, self._keys.head(conversation_id), self._keys.log(conversation_id)]
        answer = await self._script("claim", keys, args)
        if answer[0] != b"ok":
            return False
        if follows is None or self._holds(conversation_id, follows, answer[1]):
            return True
        await self._script("unclaim", [runs], [effect_id, incarnation])
        return False

    def _holds(self, conversation_id: str, follows: tuple[int, Event], flat: Sequence[bytes]) -> bool:
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        return bool(fields) and redis_values.event_of(conversation_id, follows[0], fields, self.payloads) == follows[1]

    async def finish(
        self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes, keeps_late: bool = True
    ) -> bool:
        """See `Store.finish`."""
        keys = [
            self._keys.runs(conversation_id),
            self._keys.late(conversation_id),
            self._keys.log(conversation_id),
            self._keys.head(conversation_id),
            self._keys.attention(bucket_of(conversation_id)),
            self._keys.abandoned(conversation_id),
        ]
        sealed = self.payloads.seal_outcome(conversation_id, effect_id, outcome)
        channel = self._keys.meta("outcomes")
        args: list[str | bytes | int] = [effect_id, incarnation, sealed, int(keeps_late), conversation_id, channel]
        answer = await self._script("finish", keys, args)
        return bool(answer[0] == b"ok")

    async def refuse(self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes) -> bool:
        """See `Store.refuse`."""
        keys = [
            self._keys.runs(conversation_id),
            self._keys.head(conversation_id),
            self._keys.attention(bucket_of(conversation_id)),
        ]
        sealed = self.payloads.seal_outcome(conversation_id, effect_id, outcome)
        args: list[str | bytes | int] = [effect_id, incarnation, sealed, conversation_id, self._keys.meta("outcomes")]
        answer = await self._script("refuse", keys, args)
        return bool(answer[0] == b"ok")

    async def give_back(self, conversation_id: str, effect_id: str, *, incarnation: str) -> bool:
        """See `Store.give_back`."""
        keys = [
            self._keys.runs(conversation_id),
            self._keys.head(conversation_id),
            self._keys.attention(bucket_of(conversation_id)),
        ]
        answer = await self._script("give_back", keys, [effect_id, incarnation, conversation_id, self._keys.meta("outcomes")])
        return bool(answer[0] == b"ok")

    async def claims_stand(self, claims: Sequence[tuple[str, str, str]]) -> Sequence[bool]:
        """See `Store.claims_stand`."""
        if not claims:
            return []

        async def read() -> list[bytes | None]:
            async with self._redis.pipeline(transaction=False) as pipeline:
                for conversation_id, effect_id, _ in claims:
                    pipeline.hget(self._keys.runs(conversation_id), effect_id)
                found: list[bytes | None] = await pipeline.execute()
                return found

        records = await self._do(read)
        return [
            record is not None and record.startswith((f"B|{incarnation}|".encode(), f"C|{incarnation}|".encode()))
            for record, (_, _, incarnation) in zip(records, claims, strict=True)
        ]

    async def outcomes(self) -> AsyncIterator[str]:
        """See `Store.outcomes`."""
        async with self._broadcasts.listening(self._keys.meta("outcomes")) as listener:
            while True:
                told = await listener.message()
                if told is not None:  # what a gap hides is found by its moment of attention
                    yield told.decode(errors="replace")

    async def run(self, conversation_id: str, effect_id: str) -> Run | None:
        """See `Store.run`."""
        record = await self._do(lambda: self._redis.hget(self._keys.runs(conversation_id), effect_id))
        return redis_values.run_of(conversation_id, effect_id, record, self.payloads) if record is not None else None

    async def abandoned(self, conversation_id: str) -> Mapping[str, str]:
        """See `Store.abandoned`."""
        found = await self._do(lambda: self._redis.hgetall(self._keys.abandoned(conversation_id)))
        now = await self.now() if found else 0
        claims = {name.decode(): record.decode(errors="replace").partition("|")[::2] for name, record in found.items()}
        return {name: incarnation for name, (incarnation, until) in claims.items() if not until.isdigit() or int(until) > now}

    async def late(self, conversation_id: str) -> Mapping[str, Late]:
        """See `Store.late`."""
        found = await self._do(lambda: self._redis.hgetall(self._keys.late(conversation_id)))
        return {
            name: redis_values.late_of(conversation_id, name, record, self.payloads)
            for name, record in ((effect_id.decode(), record) for effect_id, record in found.items())
        }

    async def attest(self, incarnation: str, lease_ms: int, *, company: int = 1) -> None:
        """See `Store.attest`."""

        async def write() -> None:
            async with self._redis.pipeline(transaction=False) as pipeline:
                pipeline.set(self._keys.meta(f"incarnation:{incarnation}"), b"", px=lease_ms)
                pipeline.set(self._keys.meta(f"company:{incarnation}"), company, px=COMPANY_MS)
                await pipeline.execute()

        await self._do(write)

    async def company(self, incarnation: str) -> int:
        """See `Store.company`."""
        found = await self._do(lambda: self._redis.get(self._keys.meta(f"company:{incarnation}")))
        return redis_values.number_of(found or b"1", "the number of an incarnation's claims")

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

    async def publish(self, conversation_id: str, payload: bytes) -> bool:
        """See `Store.publish`."""
        sealed = self.payloads.seal(payload, "live", conversation_id)
        async with translated(), self._room:
            return bool(await self._redis.publish(self._keys.live(conversation_id), sealed))

    async def listen(self, conversation_id: str) -> AsyncIterator[bytes]:
        """See `Store.listen`."""
        async with self._broadcasts.listening(self._keys.live(conversation_id)) as listener:
            while True:
                told = await listener.message()
                if told is not None and told != redis_values.NEWS:
                    yield self.payloads.open_or_leave(told, "live", conversation_id)
