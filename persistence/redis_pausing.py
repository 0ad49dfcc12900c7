"""Pauses in Redis: a hash in the meta slot, and in each bucket the conversations that were released as paused."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from holdfast.errors import CorruptStore

from . import redis_values
from .keys import BUCKETS
from .pausing import MOST_PAUSED, Pause, Paused, too_many
from .redis_database import RedisDatabase


class RedisPausing(RedisDatabase):
    """The verbs of `Pausing`, in Redis."""

    async def pause(self, agent: str | None, *, by: str, reason: str) -> Pause:
        answer = await self._script("pause", [self._keys.meta("pauses")], [agent or "", by, reason, MOST_PAUSED])
        if answer[0] == b"full":
            raise too_many()
        return _pause(agent or "", answer[2], duplicate=bool(answer[1]))

    async def resume(self, agent: str | None) -> Pause | None:
        _, _, found = await self._script("paused", [self._keys.meta("pauses")], [])
        record = dict(zip(found[::2], found[1::2], strict=True)).get((agent or "").encode())
        if record is None:
            return None
        # The script may run again after its reply was lost: it lifts no other pause, and the pause read is lifted anyway.
        await self._script("resume", [self._keys.meta("pauses")], [agent or "", record])
        return _pause(agent or "", record)

    async def paused(self) -> Paused:
        _, now, found = await self._script("paused", [self._keys.meta("pauses")], [])
        records = sorted(zip(found[::2], found[1::2], strict=True))
        return Paused(int(now), [_pause(whose.decode(errors="replace"), record) for whose, record in records])

    async def readmit(self, limit: int) -> int:
        paused = await self.paused()
        if any(pause.agent is None for pause in paused.pauses):
            return 0
        ranges = _others([pause.agent for pause in paused.pauses if pause.agent is not None])

        def read(pipe: Any) -> None:
            for bucket in range(BUCKETS):
                for first, last in ranges:
                    pipe.zrangebylex(self._keys.paused(bucket), first, last, start=0, num=limit)

        answers = await self._each(read)
        readmitted = 0
        for bucket in range(BUCKETS):
            found = answers[bucket * len(ranges) : (bucket + 1) * len(ranges)]
            members = [member for members in found if isinstance(members, list) for member in members][:limit]
            if members:
                keys = [self._keys.paused(bucket), self._keys.attention(bucket)]
                await self._script("readmit", keys, [self._keys.bucket(bucket), *members])
                readmitted += len(members)
        return readmitted


def _others(agents: Sequence[str]) -> list[tuple[str, str]]:
    """The ranges of members `agent|conversation` of all agents but these; in ASCII, `}` comes right after `|`."""
    starts = sorted(f"{agent}|" for agent in agents)  # the order with the `|`, which differs from that of the names
    ends = ["-", *(end for start in starts for end in (f"({start}", f"[{start[:-1]}}}")), "+"]
    return [(first, last) for number, (first, last) in enumerate(pairwise(ends)) if number % 2 == 0]


def _pause(whose: str, record: bytes, *, duplicate: bool = False) -> Pause:
    since, _, rest = record.partition(b"|")
    by, _, reason = rest.partition(b"|")
    at = redis_values.number_of(since, f"the pause of {whose or 'the namespace'}")
    if not by:
        raise CorruptStore(f"the pause of {whose or 'the namespace'} reads {record[:40]!r}")
    said = reason.decode(errors="replace")
    return Pause(agent=whose or None, reason=said, by=by.decode(errors="replace"), since=at, duplicate=duplicate)
