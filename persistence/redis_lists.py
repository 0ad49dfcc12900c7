"""The lists over all conversations in Redis, merged from an index per bucket."""

import heapq
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from holdfast.conversation import Status, SuspensionKind
from holdfast.conversation.records.calls import PendingView
from holdfast.errors import CorruptStore
from holdfast.redaction import PLAIN

from . import pages, redis_values
from .keys import BUCKETS
from .lists import TROUBLE_MS, TROUBLES, Census, Due, Listing, Overdue, Trouble
from .pages import PendingPlace
from .pausing import MOST_PAUSED, Pause, Paused, too_many
from .payloads import Payloads
from .redis_views import RedisViews, row_of_head
from .views import unreadable_call, unreadable_member, unreadable_row


class RedisLists(RedisViews):
    """The verbs of `Lists` and `Pausing`, in Redis."""

    async def pending(
        self, *, limit: int, after: str | None = None, agent: str | None = None, kind: SuspensionKind | None = None
    ) -> Listing:
        members, more = await self._page(
            lambda bucket: self._keys.pending(bucket, agent, kind), limit, pages.pending_after(after)
        )
        places = [pages.pending_place(member) for member in members]
        known = [place for place in places if place is not None]
        views = iter(await self._views(known, short=True) if known else ())
        rows: list[PendingView] = []
        for member, place in zip(members, places, strict=True):
            unknown = unreadable_call(PendingPlace(), unreadable_member(member, "pending calls")) if place is None else None
            row = unknown or next(views, None)
            if row is None:  # the rest is too large for this page
                break
            rows.append(row)
        if not (more or len(rows) < len(members)):
            return Listing(rows, None)
        return Listing(rows, pages.cursor_of(members[len(rows) - 1], readable=places[len(rows) - 1] is not None))

    async def conversations(
        self,
        *,
        limit: int,
        after: str | None = None,
        agent: str | None = None,
        status: Status | None = None,
        given: bool = False,
    ) -> Listing:
        def key(bucket: int) -> str:
            return self._keys.given(bucket) if given else self._keys.conversations(bucket, agent, status)

        members, more = await self._page(key, limit, pages.conversations_after(after))
        places = [pages.conversation_place(member) for member in members]
        heads = iter(await self._heads([place[1] for place in places if place is not None]))
        rows = [
            unreadable_row("", 0, unreadable_member(member, "conversations"))
            if place is None
            else row_of_head(*place, next(heads))
            for member, place in zip(members, places, strict=True)
        ]
        return Listing(rows, pages.cursor_of(members[-1], readable=places[-1] is not None) if more else None)

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
            await self._do(lambda: self._redis.hdel(self._keys.meta("troubles"), conversation_id))
            return 0
        text = self.payloads.seal_text(PLAIN.redacted(reason, 500), "trouble", conversation_id)
        answer = await self._script("troubled", [self._keys.meta("troubles")], [conversation_id, text, TROUBLES, TROUBLE_MS])
        return int(answer[1])

    async def troubles(self) -> Sequence[Trouble]:
        now = await self.now()
        found = await self._do(lambda: self._redis.hgetall(self._keys.meta("troubles")))
        troubles = [_trouble(name.decode(errors="replace"), record, self.payloads) for name, record in found.items()]
        fresh = [trouble for trouble, last in filter(None, troubles) if last > now - TROUBLE_MS]
        return sorted(fresh, key=lambda trouble: trouble.since)

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
        # If the script runs again after a lost reply, it lifts no other pause; the pause read here is lifted either way.
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

    async def _page(self, key: Callable[[int], str], limit: int, after: str) -> tuple[list[str], bool]:
        pages.check_limit(limit)
        start = f"({after}".encode("latin-1") if after else "-"

        async def fetch(buckets: Sequence[int], cap: int) -> list[list[str]]:
            found = await self._pipe(
                lambda pipe: [pipe.zrangebylex(key(bucket), start, "+", start=0, num=cap) for bucket in buckets]
            )
            return [[member.decode("latin-1") for member in members] for members in found]

        return await pages.merge(fetch, limit)


def _trouble(conversation_id: str, record: bytes, payloads: Payloads) -> tuple[Trouble, int] | None:
    """A trouble and when it was last met (ms UTC); None for an unreadable record, which must not hide others."""
    since, _, rest = record.partition(b"|")
    last, _, reason = rest.partition(b"|")
    if not (since.isdigit() and last.isdigit()):
        return None
    return Trouble(conversation_id, payloads.open_text(reason, "trouble", conversation_id), int(since)), int(last)


def _others(agents: Sequence[str]) -> list[tuple[str, str]]:
    """The ranges of members `agent|conversation` of all other agents; in ASCII, `}` follows `|`."""
    starts = sorted(f"{agent}|" for agent in agents)  # sorted with the `|`, which differs from the order of the names
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
