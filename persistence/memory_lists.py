"""The lists over all conversations in memory."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

from holdfast.conversation import Status, SuspensionKind
from holdfast.conversation.log.index import pending_entries
from holdfast.redaction import PLAIN

from .hashes import parts_of
from .keys import BUCKETS, bucket_of
from .lists import TROUBLE_MS, TROUBLES, Census, Due, Overdue, Rebuilt
from .memory_database import MemoryDatabase, check
from .pausing import MOST_PAUSED, Pause, Paused, too_many


class MemoryLists(MemoryDatabase):
    """The verbs of `Lists` and `Pausing`, in memory."""

    async def reindex(self) -> AsyncIterator[Rebuilt]:
        for bucket in range(BUCKETS):
            mine = [name for name, found in self._conversations.items() if found.log and bucket_of(name) == bucket]
            for conversation_id in mine:
                found = self._conversations[conversation_id]
                found.after = self._state(conversation_id, found)
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
