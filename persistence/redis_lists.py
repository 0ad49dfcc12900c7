"""The lists over all conversations in Redis, merged from an index per bucket."""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from holdfast.conversation import Status, SuspensionKind
from holdfast.conversation.terms.decisions import OF_PEOPLE
from holdfast.errors import CorruptStore
from holdfast.redaction import PLAIN

from . import codec, pages
from .keys import BUCKETS
from .lists import (
    AGENTS,
    AGES_S,
    MOST_PAUSED,
    SERIES,
    TROUBLE_MS,
    TROUBLES,
    Census,
    Due,
    Overdue,
    Pause,
    Paused,
    Survey,
    Waiting,
    too_many,
)
from .pages import pending_place
from .reads import AMBIGUOUS
from .redis_database import RedisDatabase


class RedisLists(RedisDatabase):
    """The verbs of `Lists`, `Pausing` and `Tallies`, in Redis."""

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
        # Run again after a lost reply, the script lifts no other pause; the pause read here is lifted either way.
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

    async def _page(self, indexes: Sequence[str], limit: int, after: str, before: str = "") -> tuple[list[str], bool]:
        pages.check_limit(limit)
        start, end = (f"({text}".encode("latin-1") if text else open_end for text, open_end in ((after, "-"), (before, "+")))
        keys = [f"{self._keys.bucket(bucket)}{index}" for bucket in range(BUCKETS) for index in indexes]

        async def fetch(sources: Sequence[int], cap: int) -> list[list[str]]:
            found = await self._pipe(
                lambda pipe: [pipe.zrangebylex(keys[source], start, end, start=0, num=cap) for source in sources]
            )
            return [[member.decode("latin-1") for member in members] for members in found]

        return await pages.merge(fetch, limit, len(keys))

    async def _named(self, start: str) -> list[str]:
        between = f"({start}".encode("latin-1"), f"({start}\xff".encode("latin-1")
        index = f"{self._keys.every_bucket}pending:{pages.BY_ID}"
        _, *found = await self._script("named", [], [index, BUCKETS, *between, AMBIGUOUS])
        return sorted(member.decode("latin-1") for member in found)[:AMBIGUOUS]

    async def count(self, counts: Mapping[str, int]) -> None:
        if counts:
            pairs: list[str | bytes | int] = [part for name, by in counts.items() for part in (name, by)]
            await self._script("count", [self._keys.meta("counts")], [SERIES, *pairs])

    async def survey(self) -> Survey:
        now, agents, keys = await self.now(), await self._agents(), self._keys
        said = await self._do(lambda: self._redis.hgetall(keys.meta("counts")))
        sizes: dict[tuple[str, Status | SuspensionKind | None, int], str] = {
            ("actors", None, 0): keys.meta("living"),
            ("offers", None, 0): keys.meta("standby"),
        }
        for bucket in range(BUCKETS):
            sizes["paused", None, bucket] = keys.paused(bucket)
            sizes |= {("listed", one, bucket): keys.conversations(bucket, status=one.value) for one in Status}
            sizes |= {("waiting", one, bucket): keys.pending(bucket, kind=one.value) for one in OF_PEOPLE}
        hosting, *counts = await self._each(
            lambda pipe: [pipe.hvals(keys.meta("hosting")), *(pipe.zcard(key) for key in sizes.values())]
        )
        sums: Counter[tuple[str, Status | SuspensionKind | None]] = Counter()
        there: list[tuple[int, SuspensionKind]] = []
        for (what, one, bucket), count in zip(sizes, map(_number, counts), strict=True):
            sums[what, one] += count
            if isinstance(one, SuspensionKind) and count:
                there.append((bucket, one))
        waiting, older = await self._waiting(now, agents, there)
        hosted = [name.decode(errors="replace") for name in hosting] if isinstance(hosting, list) else []
        in_actors, listed = await self._statuses(hosted), {status: sums["listed", status] for status in Status}
        return Survey(
            now,
            {name.decode(errors="replace"): int(count) for name, count in said.items() if count.isdigit()},
            listed,
            waiting,
            {(kind, age_s): older[kind, age_s] for kind in OF_PEOPLE for age_s in AGES_S},
            sums["actors", None],
            sums["offers", None],
            len(hosted),
            sums["paused", None],
            {status: max(count - in_actors[status], 0) for status, count in listed.items()},
        )

    async def _statuses(self, conversation_ids: Sequence[str]) -> Counter[Status]:
        rows = await self._rows([(0, conversation_id) for conversation_id in sorted(set(conversation_ids))])
        return Counter(row.status for row in rows if row.status is not None)

    async def _waiting(
        self, now: int, agents: Sequence[str], there: Sequence[tuple[int, SuspensionKind]]
    ) -> tuple[dict[tuple[str, SuspensionKind], Waiting], Counter[tuple[SuspensionKind, int]]]:
        """Suspensions by agent and kind, and by kind and age; only buckets that have some of a kind are read."""
        asked = (None, *agents)

        def look(pipe: Any) -> None:
            for bucket, kind in there:
                for age_s in AGES_S:
                    before = f"({max(now - age_s * 1000 + 1, 0):015d}"
                    pipe.zlexcount(self._keys.pending(bucket, kind=kind.value), "-", before)
                for agent in asked:
                    pipe.zcard(self._keys.pending(bucket, agent, kind.value))
                    pipe.zrange(self._keys.pending(bucket, agent, kind.value), 0, 0)

        older: Counter[tuple[SuspensionKind, int]] = Counter()
        count: Counter[tuple[str | None, SuspensionKind]] = Counter()
        since: dict[tuple[str | None, SuspensionKind], int] = {}
        answers = iter(await self._each(look) if there else ())
        for _, kind in there:
            for age_s in AGES_S:
                older[kind, age_s] += _number(next(answers))
            for agent in asked:
                place = (agent, kind)
                count[place] += _number(next(answers))
                first = next(answers)
                oldest = pending_place(first[0].decode("latin-1")) if isinstance(first, list) and first else None
                if oldest is not None:
                    since[place] = min(since.get(place, oldest.created_at), oldest.created_at)
        found = {place: Waiting(number, since.get(place)) for place, number in count.items()}
        return _by_agent(found, agents), older

    async def _agents(self) -> list[str]:
        """The agents of the readable published apps, at most `AGENTS`."""
        return sorted({agent for record in await self.apps() for agent in record.agents})[:AGENTS]


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


def _number(answer: Any) -> int:
    return answer if isinstance(answer, int) else 0


def _by_agent(
    waiting: Mapping[tuple[str | None, SuspensionKind], Waiting], agents: Sequence[str]
) -> dict[tuple[str, SuspensionKind], Waiting]:
    """Suspensions by agent and kind; the rest is under the agent ''."""
    found = {(agent, kind): one for (agent, kind), one in waiting.items() if agent is not None and one.count}
    for (agent, kind), every in waiting.items():
        left = every.count - sum(waiting[one, kind].count for one in agents)
        if agent is None and left > 0:
            found["", kind] = Waiting(left, every.since if left == every.count else None)
    return found
