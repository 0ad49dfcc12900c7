"""The lists over all conversations in Redis, merged from an index per bucket."""

import heapq
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from holdfast.conversation import Status, SuspensionKind
from holdfast.errors import CorruptStore
from holdfast.redaction import PLAIN

from . import codec, pages
from .keys import BUCKETS
from .lists import TROUBLE_MS, TROUBLES, Census, Due, Overdue
from .pausing import MOST_PAUSED, Pause, Paused, too_many
from .redis_views import RedisViews


class RedisLists(RedisViews):
    """The verbs of `Lists` and `Pausing`, in Redis."""

    async def attention(self, limit: int) -> Due:
        now = await self.now()

        attention = self._keys.attention  # a key of the wrong type spoils its own bucket alone
        found = await self._each(
            lambda pipe: [pipe.zrangebyscore(attention(bucket), "-inf", now, start=0, num=limit) for bucket in range(BUCKETS)]
        )
        return Due(now, [member.decode() for members in found if isinstance(members, list) for member in members])

    async def postpone(self, conversation_id: str, delay_ms: int) -> None:
        await self._on(conversation_id, "postpone", conversation_id, delay_ms)

    async def overdue(self, late_ms: int, *, limit: int) -> Overdue:
        before = await self.now() - late_ms

        def look(pipe: Any) -> None:
            for bucket in range(BUCKETS):
                pipe.zcount(self._keys.attention(bucket), "-inf", before)
                pipe.zrangebyscore(self._keys.attention(bucket), "-inf", before, start=0, num=limit, withscores=True)

        found = await self._each(look)
        count = sum(one for one in found if isinstance(one, int))
        late = [(int(at), name.decode(errors="replace")) for one in found if isinstance(one, list) for name, at in one]
        return Overdue(count, tuple((name, at) for at, name in heapq.nsmallest(limit, late)))

    async def census(self, *, since: int) -> Census:
        keys = self._keys

        def look(pipe: Any) -> None:
            for bucket in range(BUCKETS):
                pipe.zcard(keys.conversations(bucket))
                pipe.zlexcount(keys.conversations(bucket), f"[{max(since, 0):015d}", "+")
                pipe.zcard(keys.pending(bucket))
                pipe.zcard(keys.pending(bucket, kind=SuspensionKind.LOST.value))
                pipe.zcard(keys.conversations(bucket, status=Status.QUARANTINED.value))

        counts = [answer if isinstance(answer, int) else 0 for answer in await self._each(look)]
        conversations, begun, pending, lost, quarantined = (counts[kind::5] for kind in range(5))
        return Census(sum(conversations), sum(begun), max(conversations), sum(pending), sum(lost), sum(quarantined))

    async def troubled(self, conversation_id: str, reason: str | None) -> int:
        if reason is None:
            await self._drop((self._keys.meta("troubles"), conversation_id))
            return 0
        text = self.payloads.seal_text(PLAIN.redacted(reason, 500), "trouble", conversation_id)
        answer = await self._script("troubled", [self._keys.meta("troubles")], [conversation_id, text, TROUBLES, TROUBLE_MS])
        return int(answer[1])

    async def pause(self, agent: str | None, *, by: str, reason: str) -> Pause:
        answer = await self._script("pause", [self._keys.meta("pauses")], [agent or "", by, reason, MOST_PAUSED])
        if answer[0] == b"full":
            raise too_many()
        return _pause(agent or "", answer[2], duplicate=bool(answer[1]))

    async def unpause(self, agent: str | None) -> Pause | None:
        _, _, found = await self._script("paused", [self._keys.meta("pauses")], [])
        record = dict(zip(found[::2], found[1::2], strict=True)).get((agent or "").encode())
        if record is None:
            return None
        # If the script runs again after a lost reply, it lifts no other pause; the pause read here is lifted either way.
        await self._script("unpause", [self._keys.meta("pauses")], [agent or "", record])
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

    async def _page(
        self, index: str, limit: int, after: str, agent: str | None = None, other: str | None = None
    ) -> tuple[list[str], bool]:
        pages.check_limit(limit)
        of_index = self._keys.pending if index == "pending" else self._keys.conversations
        start = f"({after}".encode("latin-1") if after else "-"

        def key(bucket: int) -> str:
            return self._keys.given(bucket) if index == "given" else of_index(bucket, agent, other)

        async def fetch(buckets: Sequence[int], cap: int) -> list[list[str]]:
            found = await self._pipe(
                lambda pipe: [pipe.zrangebylex(key(bucket), start, "+", start=0, num=cap) for bucket in buckets]
            )
            return [[member.decode("latin-1") for member in members] for members in found]

        return await pages.merge(fetch, limit)


def _others(agents: Sequence[str]) -> list[tuple[str, str]]:
    """The ranges of members `agent|conversation` of all other agents; in ASCII, `}` follows `|`."""
    starts = sorted(f"{agent}|" for agent in agents)  # sorted with the `|`, which differs from the order of the names
    ends = ["-", *(end for start in starts for end in (f"({start}", f"[{start[:-1]}}}")), "+"]
    return [(first, last) for number, (first, last) in enumerate(pairwise(ends)) if number % 2 == 0]


def _pause(whose: str, record: bytes, *, duplicate: bool = False) -> Pause:
    since, _, rest = record.partition(b"|")
    by, _, reason = rest.partition(b"|")
    at = codec.number_of(since, f"the pause of {whose or 'the namespace'}")
    if not by:
        raise CorruptStore(f"the pause of {whose or 'the namespace'} reads {record[:40]!r}")
    said = reason.decode(errors="replace")
    return Pause(agent=whose or None, reason=said, by=by.decode(errors="replace"), since=at, duplicate=duplicate)
