"""Pauses in memory."""

from dataclasses import replace

from .keys import bucket_of
from .memory_database import MemoryDatabase
from .pausing import MOST_PAUSED, Pause, Paused, too_many


class MemoryPausing(MemoryDatabase):
    """The verbs of `Pausing`, in memory."""

    async def pause(self, agent: str | None, *, by: str, reason: str) -> Pause:
        stands = self._pauses.get(agent or "")
        if stands is not None:
            return replace(stands, duplicate=True)
        if agent is not None and len(self._pauses) >= MOST_PAUSED:
            raise too_many()
        self._pauses[agent or ""] = pause = Pause(agent, reason, by, self._clock())
        return pause

    async def resume(self, agent: str | None) -> Pause | None:
        return self._pauses.pop(agent or "", None)  # read and lifted in one step: no other pause can come between

    async def paused(self) -> Paused:
        return Paused(self._clock(), [self._pauses[whose] for whose in sorted(self._pauses)])

    async def readmit(self, limit: int) -> int:
        paused, left = await self.paused(), dict[int, int]()
        for conversation_id, found in self._conversations.items():
            index, bucket = found.index, bucket_of(conversation_id)
            over = found.paused and index is not None and paused.of(index.agent) is None
            if over and left.setdefault(bucket, limit) > 0:
                found.paused, found.looked_at, found.postponed = False, paused.now, 0
                left[bucket] -= 1
        return sum(limit - still for still in left.values())
