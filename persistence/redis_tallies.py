"""Numbers over everything, in Redis: counts in one hash, and the lengths of indexes."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.conversation import Status, SuspensionKind
from holdfast.errors import StoreError

from . import codec, redis_values
from .keys import BUCKETS
from .pages import pending_place
from .redis_database import RedisDatabase
from .tallies import AGENTS, AGES_S, SERIES, Survey, Waiting

COUNTS = "counts"


class RedisTallies(RedisDatabase):
    """The verbs of `Tallies`, in Redis."""

    async def count(self, counts: Mapping[str, int]) -> None:
        """See `Store.count`."""
        if counts:
            pairs: list[str | bytes | int] = [part for name, by in counts.items() for part in (name, by)]
            await self._script("count", [self._keys.meta(COUNTS)], [SERIES, *pairs])

    async def counted(self) -> Mapping[str, int]:
        """See `Store.counted`."""
        found = await self._do(lambda: self._redis.hgetall(self._keys.meta(COUNTS)))
        return {name.decode(errors="replace"): int(count) for name, count in found.items() if count.isdigit()}

    async def survey(self) -> Survey:
        """See `Store.survey`."""
        now, agents = await self.now(), await self._agents()
        kinds, statuses = list(SuspensionKind), list(Status)
        asked = [(agent, kind) for kind in kinds for agent in (None, *agents)]

        async def read() -> Any:
            keys = self._keys
            async with self._redis.pipeline(transaction=False) as pipe:
                for name in ("living", "standby"):
                    pipe.zcard(keys.meta(name))
                pipe.hlen(keys.meta("hosting"))
                for bucket in range(BUCKETS):
                    pipe.zcard(keys.paused(bucket))
                    for status in statuses:
                        pipe.zcard(keys.conversations(bucket, None, status.value))
                    for kind in kinds:
                        for age_s in AGES_S:
                            pipe.zlexcount(keys.pending(bucket, None, kind.value), "-", f"({_moment(now, age_s)}")
                    for agent, kind in asked:
                        pipe.zcard(keys.pending(bucket, agent, kind.value))
                return await pipe.execute(raise_on_error=False)

        answers = await self._do(read)
        redis_values.readable(answers)  # raises every error but that of a wrong type
        counts = [answer if isinstance(answer, int) else 0 for answer in answers]
        (actors, offers, hosted), rest = counts[:3], counts[3:]
        width = 1 + len(statuses) + len(kinds) * len(AGES_S) + len(asked)
        columns = [rest[place::width] for place in range(width)]
        sums = iter([sum(column) for column in columns])
        paused = next(sums)
        conversations = {status: next(sums) for status in statuses}
        older = {(kind, age_s): next(sums) for kind in kinds for age_s in AGES_S}
        there = [[bucket for bucket in range(BUCKETS) if column[bucket]] for column in columns[-len(asked) :]]
        since = await self._oldest(asked, there)
        waiting = {place: Waiting(count, since.get(place)) for place, count in zip(asked, sums, strict=True)}
        return Survey(now, conversations, _pending(waiting, agents), older, actors, offers, hosted, paused)

    async def _oldest(
        self, asked: Sequence[tuple[str | None, SuspensionKind]], there: Sequence[Sequence[int]]
    ) -> dict[tuple[str | None, SuspensionKind], int]:
        """The time of the oldest member of each of these indexes, given the buckets in which they have members."""
        looked = [(place, bucket) for place, buckets in zip(asked, there, strict=True) for bucket in buckets]

        async def read() -> Any:
            async with self._redis.pipeline(transaction=False) as pipe:
                for (agent, kind), bucket in looked:
                    pipe.zrange(self._keys.pending(bucket, agent, kind.value), 0, 0)
                return await pipe.execute(raise_on_error=False)

        since: dict[tuple[str | None, SuspensionKind], int] = {}
        for (place, _), members in zip(looked, await self._do(read) if looked else [], strict=True):
            found = pending_place(members[0].decode("latin-1")) if isinstance(members, list) and members else None
            if found is not None:
                since[place] = min(since.get(place, found.created_at), found.created_at)
        return since

    async def _agents(self) -> list[str]:
        """The agents of the published apps, as many as are counted by name; a record that cannot be read has none."""
        agents: set[str] = set()
        for record in await self._do(lambda: self._redis.hvals(self._keys.meta("apps"))):
            with contextlib.suppress(StoreError):
                agents.update(codec.decode_app(record).agents)
        return sorted(agents)[:AGENTS]


def _moment(now: int, age_s: int) -> str:
    """The beginning of the members of what is younger than so many seconds."""
    return f"{max(now - age_s * 1000 + 1, 0):015d}"


def _pending(
    waiting: Mapping[tuple[str | None, SuspensionKind], Waiting], agents: Sequence[str]
) -> dict[tuple[str, SuspensionKind], Waiting]:
    """What waits by agent and kind; what is left of all stands under the agent ''."""
    found = {(agent, kind): one for (agent, kind), one in waiting.items() if agent is not None and one.count}
    for kind in SuspensionKind:
        every = waiting[None, kind]
        left = every.count - sum(waiting[agent, kind].count for agent in agents)
        if left > 0:
            found["", kind] = Waiting(left, every.since if left == every.count else None)
    return found
