"""Counts and surveys in memory."""

from collections import Counter
from collections.abc import Mapping

from holdfast.conversation import Status, SuspensionKind
from holdfast.conversation.log.index import PendingEntry

from .memory_database import MemoryDatabase, check
from .tallies import AGENTS, AGES_S, SERIES, Survey, Waiting


class MemoryTallies(MemoryDatabase):
    """The verbs of `Tallies`, in memory."""

    async def count(self, counts: Mapping[str, int]) -> None:
        check(all(name and by >= 0 for name, by in counts.items()), "arguments")
        new = Counter(name.rpartition("|")[0] or name for name in counts if name not in self._counts)
        room: dict[str, bool] = {}
        for name, by in counts.items():
            group = name.rpartition("|")[0] or name
            room[group] = room[group] if group in room else len(self._counts) + new[group] <= SERIES
            if name in self._counts or room[group]:
                self._counts[name] = self._counts.get(name, 0) + by

    async def survey(self) -> Survey:
        now = self._clock()
        agents = set(sorted({agent for record in await self.apps() for agent in record.agents})[:AGENTS])
        listed = [found for found in self._conversations.values() if found.listed is not None]
        statuses = Counter(found.status for found in listed)
        waiting: dict[tuple[str, SuspensionKind], list[PendingEntry]] = {}
        for found in listed:
            for entry in found.pending.values():
                agent = found.listed.agent if found.listed is not None and found.listed.agent in agents else ""
                waiting.setdefault((agent, entry.kind), []).append(entry)
        (hosting,) = await self._all(self._keys.meta("hosting"))
        hosted = {name.decode(): self._conversations.get(name.decode()) for name in hosting.values()}
        in_actors = Counter(found.status for found in hosted.values() if found is not None and found.listed is not None)
        every = [entry for found in listed for entry in found.pending.values()]
        return Survey(
            now,
            dict(self._counts),
            {status: statuses[status] for status in Status},
            {place: _waiting(place[0], entries, every) for place, entries in waiting.items()},
            {
                (kind, age_s): sum(entry.kind is kind and entry.created_at <= now - age_s * 1000 for entry in every)
                for kind in SuspensionKind
                for age_s in AGES_S
            },
            actors=len(self._living),
            offers=len(self._standby),
            hosted=len(hosting),
            paused=sum(found.paused for found in listed),
            unhosted={status: max(statuses[status] - in_actors[status], 0) for status in Status},
        )


def _waiting(agent: str, entries: list[PendingEntry], every: list[PendingEntry]) -> Waiting:
    kind = entries[0].kind
    alone = bool(agent) or len(entries) == sum(entry.kind is kind for entry in every)
    return Waiting(len(entries), min(entry.created_at for entry in entries) if alone else None)
