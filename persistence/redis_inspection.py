"""What an operator asks of a store on Redis."""

import heapq
from collections.abc import Sequence
from typing import Any

from holdfast.conversation import Status, SuspensionKind

from . import redis_values
from .inspection import BrokenApp, Census, Overdue, Silent
from .keys import BUCKETS
from .redis_meta import SINCE
from .redis_supervision import RedisSupervision


class RedisInspection(RedisSupervision):
    """The verbs of `Inspection`."""

    async def broken_apps(self) -> Sequence[BrokenApp]:
        """See `Store.broken_apps`."""
        fields = await self._do(lambda: self._redis.hgetall(self._keys.meta("problems")))
        said = {name.decode(errors="replace"): text for name, text in fields.items()}
        found = [
            BrokenApp(path, self.payloads.open_text(text, "problem", path), _moment(said.get(f"{path}{SINCE}")))
            for path, text in said.items()
            if not path.endswith(SINCE)
        ]
        return sorted(found, key=lambda broken: (broken.since or 0, broken.app))

    async def silent(self, quiet_ms: int) -> Sequence[Silent]:
        """See `Store.silent`."""
        heard_before = await self.now() - quiet_ms

        async def read() -> Any:
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.zrangebyscore(self._keys.meta("living"), "-inf", heard_before, withscores=True)
                pipe.hgetall(self._keys.meta("hosting"))
                return await pipe.execute()

        actors, hosting = await self._do(read)
        return [
            Silent(
                name.decode(errors="replace"),
                int(at),
                hosted.decode(errors="replace") if (hosted := hosting.get(name)) is not None else None,
            )
            for name, at in actors
        ]

    async def overdue(self, late_ms: int, *, limit: int) -> Overdue:
        """See `Store.overdue`."""
        before = await self.now() - late_ms

        async def read() -> Any:
            async with self._redis.pipeline(transaction=False) as pipe:
                for bucket in range(BUCKETS):
                    pipe.zcount(self._keys.attention(bucket), "-inf", before)
                for bucket in range(BUCKETS):
                    pipe.zrangebyscore(self._keys.attention(bucket), "-inf", before, start=0, num=limit, withscores=True)
                return await pipe.execute(raise_on_error=False)

        found = redis_values.readable(await self._do(read))
        count = sum(one for one in found if isinstance(one, int))
        late = [(int(at), name.decode(errors="replace")) for one in found if isinstance(one, list) for name, at in one]
        return Overdue(count, tuple((name, at) for at, name in heapq.nsmallest(limit, late)))

    async def census(self, *, since: int) -> Census:
        """See `Store.census`."""

        async def read() -> Any:
            keys = self._keys
            async with self._redis.pipeline(transaction=False) as pipe:
                for bucket in range(BUCKETS):
                    pipe.zcard(keys.conversations(bucket, None, None))
                    pipe.zlexcount(keys.conversations(bucket, None, None), f"[{max(since, 0):015d}", "+")
                    pipe.zcard(keys.pending(bucket, None, None))
                    pipe.zcard(keys.pending(bucket, None, SuspensionKind.LOST.value))
                    pipe.zcard(keys.conversations(bucket, None, Status.QUARANTINED.value))
                return await pipe.execute(raise_on_error=False)

        answers = await self._do(read)
        redis_values.readable(answers)  # what is no wrong type is raised
        counts = [answer if isinstance(answer, int) else 0 for answer in answers]
        conversations, begun, pending, lost, quarantined = (counts[kind::5] for kind in range(5))
        return Census(sum(conversations), sum(begun), max(conversations), sum(pending), sum(lost), sum(quarantined))


def _moment(text: bytes | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
