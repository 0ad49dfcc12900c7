"""The lists over all conversations in Redis: an index in each bucket, merged."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.conversation import Status, SuspensionKind
from holdfast.conversation.calls import PendingView
from holdfast.redaction import PLAIN

from . import pages, redis_values
from .keys import BUCKETS, bucket_of
from .lists import TROUBLE_MS, TROUBLES, Census, Due, Listing, Overdue, Trouble
from .pages import PendingPlace
from .payloads import Payloads
from .redis_pausing import RedisPausing
from .redis_views import RedisViews, row_of_head
from .views import unreadable_call, unreadable_member, unreadable_row

SCANNED_AT_ONCE = 100
"""Of how many members of each bucket one look for a suspension goes through at most; other clients are served in between."""


class RedisLists(RedisPausing, RedisViews):
    """The verbs of `Lists`, in Redis."""

    async def pending(
        self, *, limit: int, after: str | None = None, agent: str | None = None, kind: SuspensionKind | None = None
    ) -> Listing:
        """See `Store.pending`."""
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
            if row is None:  # what follows is too large for this page
                break
            rows.append(row)
        if not (more or len(rows) < len(members)):
            return Listing(rows, None)
        return Listing(rows, pages.cursor_of(members[len(rows) - 1], readable=places[len(rows) - 1] is not None))

    async def suspended(self, suspension_id: str) -> PendingView | None:
        """See `Store.suspended`."""
        if not pages.is_name(suspension_id):  # nor is it a pattern that finds others
            return None

        def count(pipe: Any) -> None:
            for bucket in range(BUCKETS):
                pipe.zcard(self._keys.pending(bucket, None, None))

        pages.check_scan(sum(one for one in await self._each(count) if isinstance(one, int)))
        cursors = dict.fromkeys(range(BUCKETS), 0)
        while cursors:
            found, cursors = await self._scanned(cursors, f"*|{suspension_id}|*")
            places = (pages.pending_place(member) for member in found)
            place = next((one for one in places if one is not None and one.suspension_id == suspension_id), None)
            if place is not None:
                return (await self._views([place], short=False))[0]
        return None

    async def _scanned(self, cursors: Mapping[int, int], pattern: str) -> tuple[list[str], dict[int, int]]:
        """The members of the buckets' pending indexes that fit, of a part of each, and the cursors of what is left."""

        async def read() -> Any:
            async with self._redis.pipeline(transaction=False) as pipe:
                for bucket, cursor in cursors.items():
                    pipe.zscan(self._keys.pending(bucket, None, None), cursor, match=pattern, count=SCANNED_AT_ONCE)
                return await pipe.execute(raise_on_error=False)

        answers = await self._do(read)
        redis_values.readable(answers)  # raises every error but that of a wrong type
        pairs = [(bucket, one) for bucket, one in zip(cursors, answers, strict=True) if not isinstance(one, Exception)]
        members = [member.decode("latin-1") for _, (_, found) in pairs for member, _ in found]
        return members, {bucket: int(cursor) for bucket, (cursor, _) in pairs if int(cursor)}

    async def conversations(
        self,
        *,
        limit: int,
        after: str | None = None,
        agent: str | None = None,
        status: Status | None = None,
        given: bool = False,
    ) -> Listing:
        """See `Store.conversations`."""

        def key(bucket: int) -> str:
            return self._keys.given(bucket) if given else self._keys.conversations(bucket, agent, status)

        members, more = await self._page(key, limit, pages.conversations_after(after))
        places = [pages.conversation_place(member) for member in members]
        heads = iter(await self._heads([place[1] for place in places if place is not None], ["index", "at"]))
        rows = [
            unreadable_row("", 0, unreadable_member(member, "conversations"))
            if place is None
            else row_of_head(*place, next(heads))
            for member, place in zip(members, places, strict=True)
        ]
        return Listing(rows, pages.cursor_of(members[-1], readable=places[-1] is not None) if more else None)

    async def attention(self, limit: int) -> Due:
        """See `Store.attention`."""
        now = await self.now()

        async def read() -> Any:
            async with self._redis.pipeline(transaction=False) as pipe:
                for bucket in range(BUCKETS):
                    pipe.zrangebyscore(self._keys.attention(bucket), "-inf", now, start=0, num=limit)
                return await pipe.execute(raise_on_error=False)

        found = redis_values.readable(await self._do(read))  # a key of the wrong type spoils its own bucket alone
        return Due(now, [member.decode() for members in found for member in members])

    async def postpone(self, conversation_id: str, delay_ms: int) -> None:
        """See `Store.postpone`."""
        keys = [self._keys.head(conversation_id), self._keys.attention(bucket_of(conversation_id))]
        await self._script("postpone", keys, [conversation_id, delay_ms])

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
        redis_values.readable(answers)  # raises every error but that of a wrong type
        counts = [answer if isinstance(answer, int) else 0 for answer in answers]
        conversations, begun, pending, lost, quarantined = (counts[kind::5] for kind in range(5))
        return Census(sum(conversations), sum(begun), max(conversations), sum(pending), sum(lost), sum(quarantined))

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

    async def _page(self, key: Callable[[int], str], limit: int, after: str) -> tuple[list[str], bool]:
        pages.check_limit(limit)
        start = f"({after}".encode("latin-1") if after else "-"

        async def fetch(buckets: Sequence[int], cap: int) -> list[list[str]]:
            async def read() -> Any:
                async with self._redis.pipeline(transaction=False) as pipe:
                    for bucket in buckets:
                        pipe.zrangebylex(key(bucket), start, "+", start=0, num=cap)
                    return await pipe.execute()

            return [[member.decode("latin-1") for member in members] for members in await self._do(read)]

        return await pages.merge(fetch, limit)


def _trouble(conversation_id: str, record: bytes, payloads: Payloads) -> tuple[Trouble, int] | None:
    """A trouble and the time when it was last met (ms UTC); None if the record cannot be read, which hides no other."""
    since, _, rest = record.partition(b"|")
    last, _, reason = rest.partition(b"|")
    if not (since.isdigit() and last.isdigit()):
        return None
    return Trouble(conversation_id, payloads.open_text(reason, "trouble", conversation_id), int(since)), int(last)
