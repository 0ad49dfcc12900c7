"""Runs in memory: their records, their progress and their live events."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from holdfast.errors import CorruptStore

from .memory_database import MemoryDatabase, check
from .runs import PROGRESS_MS, Late, Run, RunStatus


class MemoryRuns(MemoryDatabase):
    """The verbs of `Runs`, in memory."""

    async def claim(
        self, conversation_id: str, effect_id: str, *, incarnation: str, worker: str, until: int | None = None
    ) -> bool:
        """See `Store.claim`."""
        check(bool(effect_id and incarnation) and "|" not in incarnation, "arguments")
        runs = self._runs(conversation_id)
        claimed = Run(RunStatus.CLAIMED, incarnation=incarnation, worker=worker)
        match runs.get(effect_id):
            case Run(RunStatus.RUNNABLE):
                if until is not None and self._clock() > until:
                    return False
                runs[effect_id] = claimed
                return True
            case run:
                return run == claimed

    async def finish(self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes) -> bool:
        """See `Store.finish`."""
        check(bool(effect_id and incarnation) and "|" not in incarnation, "arguments")
        runs = self._runs(conversation_id)
        run = runs.get(effect_id)
        outcome = self.payloads.seal_outcome(conversation_id, effect_id, outcome)
        found = self._conversations.get(conversation_id)
        if run is None and found is not None and found.log:
            found.late[effect_id] = Late(self._clock(), outcome)
        if run is None or run.status is RunStatus.RUNNABLE or run.incarnation != incarnation:
            return False
        if run.status is RunStatus.CLAIMED:
            runs[effect_id] = Run(RunStatus.DONE, incarnation=incarnation, outcome=outcome)
        return True

    async def run(self, conversation_id: str, effect_id: str) -> Run | None:
        """See `Store.run`."""
        return self._opened_runs(conversation_id).get(effect_id)

    async def late(self, conversation_id: str) -> Mapping[str, Late]:
        """See `Store.late`."""
        found = self._conversations.get(conversation_id)
        late = found.late if found is not None else {}
        return {
            name: replace(one, outcome=self.payloads.open_late_outcome(conversation_id, name, one.outcome))
            for name, one in late.items()
        }

    async def attest(self, incarnation: str, lease_ms: int) -> None:
        """See `Store.attest`."""
        now = self._clock()
        self._attested = {name: until for name, until in self._attested.items() if until > now} | {incarnation: now + lease_ms}

    async def attested(self, incarnation: str) -> bool:
        """See `Store.attested`."""
        return self._attested.get(incarnation, 0) > self._clock()

    async def keep_progress(self, conversation_id: str, effect_id: str, payload: bytes) -> bool:
        """See `Store.keep_progress`."""
        if not effect_id:
            raise CorruptStore("arguments")
        runs = self._runs(conversation_id)
        run = runs.get(effect_id)
        if run is None or run.status is not RunStatus.CLAIMED:
            return False
        sealed = self.payloads.seal(payload, "progress", conversation_id, effect_id)
        kept = self._kept(conversation_id) | {effect_id: sealed}
        self._progress[conversation_id] = {name: one for name, one in kept.items() if name in runs}
        self._kept_until[conversation_id] = self._clock() + PROGRESS_MS
        return True

    async def progress(self, conversation_id: str) -> dict[str, bytes]:
        """See `Store.progress`."""
        return {
            effect_id: self.payloads.open_or_leave(sealed, "progress", conversation_id, effect_id)
            for effect_id, sealed in self._kept(conversation_id).items()
        }

    async def publish(self, conversation_id: str, payload: bytes) -> None:
        """See `Store.publish`."""
        sealed = self.payloads.seal(payload, "live", conversation_id)
        for queue in self._listeners.get(conversation_id, []):
            queue.put_nowait(sealed)

    async def listen(self, conversation_id: str) -> AsyncIterator[bytes]:
        """See `Store.listen`."""
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._listeners.setdefault(conversation_id, []).append(queue)
        try:
            while True:
                yield self.payloads.open_or_leave(await queue.get(), "live", conversation_id)
        finally:
            self._listeners[conversation_id].remove(queue)

    def _kept(self, conversation_id: str) -> dict[str, bytes]:
        if self._kept_until.get(conversation_id, 0) <= self._clock():
            self._progress.pop(conversation_id, None)
        return self._progress.get(conversation_id, {})
