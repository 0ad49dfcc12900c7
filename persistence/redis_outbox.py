"""The outbox in Redis."""

import math
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from typing import Any

from holdfast.conversation.log.owed import Envelope, lane_of
from holdfast.redaction import PLAIN

from . import pages, redis_scripts
from .keys import BUCKETS, bucket_of
from .lists import Listing
from .outbox import (
    ASIDE_MS,
    MOST_ASIDE,
    TRIED_MS,
    Lane,
    Leased,
    Leases,
    OutboxFigures,
    OutboxRow,
    OutboxState,
    OwedFigures,
    Verdict,
    after_cursor,
    cursor_of,
    envelope_of,
    envelope_text,
    of_outbox_id,
)
from .redis_database import RedisDatabase

Member = tuple[int, str, int]
"""A member of a lane's sorted set: its time, its text, its bucket."""


class RedisOutbox(RedisDatabase):
    """The verbs of `Outbox`, in Redis."""

    async def lanes(self) -> tuple[int, Sequence[Lane]]:
        return await self.now(), [Lane(bucket, name, int(at)) for bucket, name, at in await self._lanes() if at < math.inf]

    async def _lanes(self) -> list[tuple[int, str, float]]:
        """The lanes of all buckets, each with the time of its earliest try."""
        owed = self._keys.owed
        found = await self._each(lambda pipe: [pipe.zrange(owed(bucket), 0, -1, withscores=True) for bucket in range(BUCKETS)])
        return [
            (bucket, name.decode(errors="replace"), at)
            for bucket, lanes in enumerate(found)
            if isinstance(lanes, list)
            for name, at in lanes
        ]

    async def lease(
        self, lane: Lane, *, most: int, lease_ms: int, aside_ms: int = ASIDE_MS, most_aside: int = MOST_ASIDE
    ) -> Leases:
        nonce = uuid.uuid4().hex
        named: list[str | bytes | int] = [self._keys.bucket(lane.bucket), lane.name]
        args = [*named, most, lease_ms, nonce, aside_ms, most_aside]
        _, dropped, *found = await self._script("lease", [self._keys.owed(lane.bucket)], args)
        parts = [part.decode(errors="replace") if isinstance(part, bytes) else part for part in found]
        leased = [
            (conversation_id, envelope_of(target, text), int(tries))
            for conversation_id, target, text, tries in zip(*(parts[place::4] for place in range(4)), strict=True)
        ]
        took = [Leased(name, envelope, nonce, tries) for name, envelope, tries in leased if envelope is not None]
        return Leases(took, int(dropped))

    async def acknowledge(
        self, leased: Leased, verdict: Verdict, *, reason: str = "", after_ms: int = 0, tried_ms: int = TRIED_MS
    ) -> Verdict | None:
        said = self.payloads.seal_text(PLAIN.redacted(reason, 500), "outbox", leased.conversation_id)
        args = leased.nonce, verdict, said, after_ms, tried_ms
        answer = await self._together.result("acknowledge", self._queue_call(leased.conversation_id, leased.envelope, *args))
        if answer[0] in {b"stale", b"late"}:
            return None
        return Verdict.ASIDE if int(answer[1]) else verdict

    async def redeliver(self, name: str) -> bool:
        return bool((await self._in_queue("redeliver", *of_outbox_id(name), self._keys.meta("owed"), 0))[0] == b"ok")

    async def drop_owed(self, name: str) -> bool:
        return bool((await self._in_queue("redeliver", *of_outbox_id(name), self._keys.meta("owed"), 1))[0] == b"ok")

    async def _in_queue(self, script: str, conversation_id: str, envelope: Envelope, *args: str | bytes | int) -> list[Any]:
        return await self._script(script, *self._queue_call(conversation_id, envelope, *args))

    def _queue_call(self, conversation_id: str, envelope: Envelope, *args: str | bytes | int) -> redis_scripts.Call:
        bucket = bucket_of(conversation_id)
        named = self._keys.bucket(bucket), conversation_id, envelope.target, envelope_text(envelope)
        return [self._keys.owed(bucket)], [*named, *args]

    async def outbox(self, state: OutboxState, *, limit: int, after: str | None = None) -> Listing:
        limit, begin = pages.check_limit(limit), after_cursor(after)
        name = "owing" if state is OutboxState.OWED else "aside"
        lanes = [(bucket, lane) for bucket, lane, _ in await self._lanes()]
        found = sorted(await self._lane_members(name, lanes, begin, limit + 1))
        members = [one for one in found if one[:2] > begin]
        read = self._owed_rows if state is OutboxState.OWED else self._aside_rows
        rows = await read(members[:limit])  # without what was delivered meanwhile, or cannot be read
        return Listing(rows, cursor_of(*members[limit - 1][:2]) if len(members) > limit else None)

    async def _lane_members(
        self, name: str, lanes: Sequence[tuple[int, str]], begin: tuple[int, str], wanted: int
    ) -> list[Member]:
        """Of each lane, the first members from a time on: all of the first time, and as many of later ones as are wanted."""
        keys = [self._keys.lane(bucket, name, lane) for bucket, lane in lanes]
        since = begin[0]

        def look(pipe: Any) -> None:
            for key in keys:
                pipe.zrangebyscore(key, since, since, withscores=True)
                pipe.zrangebyscore(key, f"({since}", "+inf", start=0, num=wanted, withscores=True)

        found = await self._each(look)
        return [
            (int(at), member.decode(errors="replace"), lanes[place // 2][0])
            for place, members in enumerate(found)
            if isinstance(members, list)
            for member, at in members
        ]

    async def _owed_rows(self, members: Sequence[Member]) -> list[OutboxRow]:
        keys = self._keys
        queues = [(since, bucket, *member.partition("|")[::2]) for since, member, bucket in members]

        def look(pipe: Any) -> None:
            for _, bucket, conversation_id, target in queues:
                pipe.zrange(keys.queue(conversation_id, target), 0, 0)
                pipe.zcard(keys.queue(conversation_id, target))
                pipe.hmget(keys.tries(conversation_id), [target, f"{target}|why"])
                pipe.zscore(keys.lane(bucket, "owed", lane_of(target)), f"{conversation_id}|{target}")

        found = await self._each(look)
        rows = []
        for place, (since, _, conversation_id, target) in enumerate(queues):
            first, length, state, due_at = found[4 * place : 4 * place + 4]
            envelope = envelope_of(target, first[0].decode(errors="replace")) if isinstance(first, list) and first else None
            if envelope is None:  # delivered meanwhile, or it is set aside at the next try
                continue
            tried, why = state if isinstance(state, list) else (None, None)
            tries = (tried or b"").split(b"|")[1:2]
            rows.append(
                OutboxRow(
                    conversation_id,
                    envelope,
                    OutboxState.OWED,
                    since,
                    waiting=length if isinstance(length, int) else 0,
                    tries=int(tries[0]) if tries and tries[0].isdigit() else 0,
                    due_at=int(due_at) if isinstance(due_at, float) else 0,
                    reason=self.payloads.open_text(why, "outbox", conversation_id) if why else "",
                )
            )
        return rows

    async def _aside_rows(self, members: Sequence[Member]) -> list[OutboxRow]:
        by_bucket: dict[int, list[str]] = defaultdict(list)
        for _, member, bucket in members:
            by_bucket[bucket].append(member)
        found = await self._each(
            lambda pipe: [pipe.hmget(self._keys.aside(bucket), names) for bucket, names in by_bucket.items()]
        )
        reasons = {
            member: reason
            for names, said in zip(by_bucket.values(), found, strict=True)
            if isinstance(said, list)
            for member, reason in zip(names, said, strict=True)
        }
        rows = []
        for since, member, _ in members:
            named, _, _ = member.rpartition("|")
            head, *_ = named.rsplit("|", 3)
            conversation_id, _, target = head.partition("|")
            envelope = envelope_of(target, member[len(head) + 1 :])
            if envelope is not None:
                why = reasons.get(member)
                said = self.payloads.open_text(why, "outbox", conversation_id) if why else ""
                rows.append(OutboxRow(conversation_id, envelope, OutboxState.SET_ASIDE, since, reason=said))
        return rows

    async def outbox_figures(self) -> OutboxFigures:
        lanes = await self._lanes()

        def look(pipe: Any) -> None:
            for bucket, lane, _ in lanes:
                pipe.zcard(self._keys.lane(bucket, "owing", lane))
                pipe.zrange(self._keys.lane(bucket, "owing", lane), 0, 0, withscores=True)
                pipe.zcard(self._keys.lane(bucket, "aside", lane))

        now, found = await self.now(), await self._each(look)
        figures: dict[str, OwedFigures] = {}
        for place, (_, lane, _) in enumerate(lanes):
            queues, first, aside = found[3 * place : 3 * place + 3]
            since = int(first[0][1]) if isinstance(first, list) and first else None
            count, laid = (one if isinstance(one, int) else 0 for one in (queues, aside))
            figures[lane] = figures.get(lane, OwedFigures()).and_of(OwedFigures(count, since, laid))
        return OutboxFigures(now, figures)

    async def owed_news(self) -> AsyncIterator[Lane | None]:
        async with self._broadcasts.listening(self._keys.meta("owed")) as listener:
            while True:
                said = await listener.message()  # a gap may have hidden one
                conversation_id, _, lane = (said or b"").decode(errors="replace").partition("|")
                yield Lane(bucket_of(conversation_id), lane, 0) if lane else None
