"""The lists over all conversations in memory, and their changes."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from holdfast.conversation import Status, SuspensionKind
from holdfast.conversation.log.index import PendingEntry, pending_entries, stopped_by
from holdfast.conversation.records.idempotency import notes_key
from holdfast.conversation.terms.decisions import OF_PEOPLE
from holdfast.errors import StoreError
from holdfast.redaction import PLAIN

from . import pages
from .changes import CHANGES_AT_ONCE, Change, ChangePage, Place, page
from .hashes import parts_of
from .keys import BUCKETS, bucket_of
from .lists import (
    AGENTS,
    AGES_S,
    MOST_PAUSED,
    SERIES,
    TROUBLE_MS,
    TROUBLES,
    Census,
    ConversationRow,
    Due,
    Overdue,
    Pause,
    Paused,
    Rebuilt,
    Survey,
    Waiting,
    too_many,
)
from .memory_conversations import MemoryConversations, check
from .pages import PendingPlace
from .reads import AMBIGUOUS
from .views import Entry, naming


class MemoryLists(MemoryConversations):
    """The verbs of `Lists`, `Changes`, `Pausing` and `Tallies`, in memory."""

    async def reindex(self) -> AsyncIterator[Rebuilt]:
        for bucket in range(BUCKETS):
            mine = [name for name, found in self._conversations.items() if found.log and bucket_of(name) == bucket]
            for conversation_id in mine:
                found = self._conversations[conversation_id]
                found.after = self._state(conversation_id, found)
                found.due = found.after.due_at
                found.pending = {entry.suspension_id: entry for entry in pending_entries(found.after)}
            yield Rebuilt(bucket, len(mine), 0, [])

    async def attention(self, limit: int) -> Due:
        now = self._clock()
        due = [(found.attention, name) for name, found in self._conversations.items() if found.attention is not None]
        return Due(now, [name for at, name in sorted(due) if at <= now][:limit])

    async def postpone(self, conversation_id: str, delay_ms: int) -> None:
        check(delay_ms >= 0, "arguments")
        found, now = self._seen(conversation_id), self._clock()
        if found.attention is not None and found.attention <= now:
            found.postponed = now + delay_ms

    async def overdue(self, late_ms: int, *, limit: int) -> Overdue:
        before = self._clock() - late_ms
        moments = [(found.attention, name) for name, found in self._conversations.items() if found.attention is not None]
        late = sorted((at, name) for at, name in moments if at <= before)
        return Overdue(len(late), tuple((name, at) for at, name in late[:limit]))

    async def census(self, *, since: int) -> Census:
        listed = {name: found for name, found in self._conversations.items() if found.listed is not None}
        starts = [found.listed.created_at for found in listed.values() if found.listed is not None]
        waiting = [entry for found in listed.values() for entry in found.pending.values()]
        return Census(
            conversations=len(listed),
            begun=sum(at >= since for at in starts),
            fullest=max(Counter(map(bucket_of, listed)).values(), default=0),
            pending=len(waiting),
            lost=sum(entry.kind is SuspensionKind.LOST for entry in waiting),
            quarantined=sum(found.status is Status.QUARANTINED for found in listed.values()),
        )

    async def troubled(self, conversation_id: str, reason: str | None) -> int:
        key = self._keys.meta("troubles")
        if reason is None:
            await self._drop((key, conversation_id))
            return 0
        now, (found,) = self._clock(), await self._all(key)
        times = {name: one for name, record in found.items() if (one := parts_of(record)) and one[1] > now - TROUBLE_MS}
        if conversation_id not in times and len(times) >= TROUBLES:
            return TROUBLE_MS
        since = times[conversation_id][0] if conversation_id in times else now
        text = self.payloads.seal_text(PLAIN.redacted(reason, 500), "trouble", conversation_id)
        await self._put((key, conversation_id, f"{since}|{now}|".encode() + text))
        return max(now - since, 0)

    async def pause(self, agent: str | None, *, by: str, reason: str) -> Pause:
        stands = self._pauses.get(agent or "")
        if stands is not None:
            return replace(stands, duplicate=True)
        if agent is not None and len(self._pauses) >= MOST_PAUSED:
            raise too_many()
        self._pauses[agent or ""] = pause = Pause(agent, reason, by, self._clock())
        return pause

    async def unpause(self, agent: str | None) -> Pause | None:
        return self._pauses.pop(agent or "", None)  # read and lifted in one step, so it is the same pause

    async def paused(self) -> Paused:
        return Paused(self._clock(), [self._pauses[whose] for whose in sorted(self._pauses)])

    async def readmit(self, limit: int) -> int:
        paused, left = await self.paused(), dict[int, int]()
        for conversation_id, found in self._conversations.items():
            state, bucket = found.listed, bucket_of(conversation_id)
            over = found.paused and state is not None and paused.of(state.agent) is None
            if over and left.setdefault(bucket, limit) > 0:
                found.paused, found.looked_at, found.postponed = False, paused.now, 0
                left[bucket] -= 1
        return sum(limit - still for still in left.values())

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
                for kind in OF_PEOPLE
                for age_s in AGES_S
            },
            actors=len(self._living),
            offers=len(self._standby),
            hosted=len(hosting),
            paused=sum(found.paused for found in listed),
            unhosted={status: max(statuses[status] - in_actors[status], 0) for status in Status},
        )

    async def changes(self, place: Place | None = None, *, block_ms: int = 0) -> ChangePage:
        if place is None:
            return ChangePage((), (await self.changes(Place.before_all_of(self._clock()))).place)
        if block_ms and not self._after(place):
            await self._awaited(lambda: bool(self._after(place)), block_ms)
        found, kept = self._after(place), self._changes
        missed = len(found) >= CHANGES_AT_ONCE and len(kept) == kept.maxlen and kept[0].id >= found[0].id
        return page({0: found}, place, missed=missed)

    def _after(self, place: Place) -> list[Change]:
        found = [change for change in self._changes if place.before(change)][:CHANGES_AT_ONCE]
        return [one.told() for one in found]

    async def indexed(self) -> bool:
        return True

    async def _rows(self, places: Sequence[tuple[int, str]]) -> list[ConversationRow]:
        return [self._row(*place) for place in places]

    def _row(self, created_at: int, conversation_id: str) -> ConversationRow:
        found = self._seen(conversation_id)
        agent, stopped = ("", None) if found.listed is None else (found.listed.agent, stopped_by(found.listed))
        about = created_at, found.at, len(found.pending)
        return ConversationRow(conversation_id, agent, found.status, *about, stopped=stopped)

    async def _entries(self, places: Sequence[tuple[str, int]]) -> list[Entry]:
        return [self._entry(*place) for place in places]

    async def _within(self, places: Sequence[tuple[str, int]], most: int, least: int) -> tuple[list[Entry], int]:
        logs = [(self._seen(name).log, seq) for name, seq in places]
        sums = list(accumulate(len(log[seq - 1]) if 1 <= seq <= len(log) else 0 for log, seq in logs))
        count = max(least, sum(size <= most for size in sums))
        return await self._entries(places[:count]), sums[count - 1]

    async def _last_notes(self, places: Sequence[PendingPlace]) -> list[int]:
        known = [self._seen(place.conversation_id).known.get(notes_key(place.suspension_id)) for place in places]
        return [0 if data is None else self._noted_at(place, data) for place, data in zip(places, known, strict=True)]

    async def _page(self, indexes: Sequence[str], limit: int, after: str, before: str = "") -> tuple[list[str], bool]:
        pages.check_limit(limit)
        members = {
            member
            for conversation_id, kept in self._conversations.items()
            for index, member in kept.members(conversation_id)
            if index in indexes and member > after and (not before or member < before)
        }
        return sorted(members)[:limit], len(members) > limit

    async def _named(self, start: str) -> list[str]:
        return (await self._page([f"pending:{pages.BY_ID}"], AMBIGUOUS, start, f"{start}\xff"))[0]

    def _entry(self, conversation_id: str, seq: int) -> Entry:
        log = self._seen(conversation_id).log
        try:
            with naming(conversation_id):
                return self.payloads.open_event(conversation_id, seq, log[seq - 1]) if 1 <= seq <= len(log) else None
        except StoreError as error:
            return error


def _waiting(agent: str, entries: list[PendingEntry], every: list[PendingEntry]) -> Waiting:
    kind = entries[0].kind
    alone = bool(agent) or len(entries) == sum(entry.kind is kind for entry in every)
    return Waiting(len(entries), min(entry.created_at for entry in entries) if alone else None)
