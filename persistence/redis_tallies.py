"""Counts (one hash) and surveys (lengths of indexes) in Redis."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.conversation import Status, SuspensionKind

from .keys import BUCKETS
from .pages import pending_place
from .redis_views import RedisViews
from .tallies import AGENTS, AGES_S, SERIES, Survey, Waiting

COUNTS = "counts"


class RedisTallies(RedisViews):
    """The verbs of `Tallies`, in Redis."""

    async def count(self, counts: Mapping[str, int]) -> None:
        if counts:
            pairs: list[str | bytes | int] = [part for name, by in counts.items() for part in (name, by)]
            await self._script("count", [self._keys.meta(COUNTS)], [SERIES, *pairs])

    async def survey(self) -> Survey:
        now, agents, keys = await self.now(), await self._agents(), self._keys
        said = await self._do(lambda: self._redis.hgetall(keys.meta(COUNTS)))
        sizes: dict[tuple[str, Status | SuspensionKind | None, int], str] = {
            ("actors", None, 0): keys.meta("living"),
            ("offers", None, 0): keys.meta("standby"),
        }
        for bucket in range(BUCKETS):
            sizes["paused", None, bucket] = keys.paused(bucket)
            sizes |= {("listed", one, bucket): keys.conversations(bucket, status=one.value) for one in Status}
            sizes |= {("waiting", one, bucket): keys.pending(bucket, kind=one.value) for one in SuspensionKind}
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
            {(kind, age_s): older[kind, age_s] for kind in SuspensionKind for age_s in AGES_S},
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
                    pipe.zlexcount(self._keys.pending(bucket, kind=kind.value), "-", f"({_moment(now, age_s)}")
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


def _moment(now: int, age_s: int) -> str:
    return f"{max(now - age_s * 1000 + 1, 0):015d}"


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
