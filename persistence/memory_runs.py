"""Work records, progress and live events in memory."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from holdfast.conversation import Event
from holdfast.errors import CorruptStore

from .conversations import Visited
from .memory_conversations import MemoryConversations, check, claimed
from .runs import CLAIMS_MS, PROGRESS_MS, Late, Run, RunStatus


class MemoryRuns(MemoryConversations):
    """The verbs of `Runs`, in memory."""

    async def claim(
        self,
        conversation_id: str,
        effect_id: str,
        *,
        incarnation: str,
        worker: str,
        until: int | None = None,
        bound_ms: int = 0,
        instead_of: str = "",
        epoch: int | None = None,
        follows: tuple[int, Event] | None = None,
    ) -> bool:
        check(bool(effect_id and incarnation) and "|" not in incarnation and bound_ms >= 0, "arguments")
        runs = self._runs(conversation_id)
        run = runs.get(effect_id)
        if run is None or run.status is RunStatus.DONE or not self._holds(conversation_id, follows):
            return False
        if run.status is RunStatus.CLAIMED and (run.incarnation, run.worker) == (incarnation, worker):
            return True
        after = self._seen(conversation_id).after
        if epoch is not None and epoch != (0 if after is None else after.grants_epoch):
            return False
        given_up = run.status is RunStatus.CLAIMED and run.incarnation == instead_of
        now = self._clock()
        if not (run.status is RunStatus.RUNNABLE or given_up) or (until is not None and now >= until):
            return False
        bound = now + bound_ms if bound_ms else 0
        runs[effect_id] = Run(RunStatus.CLAIMED, incarnation=incarnation, worker=worker, until=bound)
        return True

    def _holds(self, conversation_id: str, follows: tuple[int, Event] | None) -> bool:
        found = self._seen(conversation_id)
        if follows is None:
            return True
        seq, event = follows
        data = found.log[seq - 1 : seq]
        return bool(data) and self.payloads.open_event(conversation_id, seq, data[0]) == event

    async def finish(
        self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes, keeps_late: bool = True
    ) -> bool:
        check(bool(effect_id and incarnation) and "|" not in incarnation, "arguments")
        runs = self._runs(conversation_id)
        run = runs.get(effect_id)
        outcome = self.payloads.seal_outcome(conversation_id, effect_id, outcome)
        found = self._seen(conversation_id)
        if run is None:
            found.abandoned.pop(effect_id, None)  # its body has ended
        if run is None and found.log and keeps_late:
            found.late[effect_id] = Late(self._clock(), outcome)
        if run is None or run.status is RunStatus.RUNNABLE or run.incarnation != incarnation:
            return False
        self._done(conversation_id, effect_id, incarnation, run.outcome or outcome)
        return True

    async def finish_as_guest(
        self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes, keeps_late: bool, look_ms: int
    ) -> Visited | bool:
        found = self._seen(conversation_id)
        run = found.runs.get(effect_id)
        visited = await self.visit(conversation_id, most_bytes=sys.maxsize)
        if visited is None or run is None or run.status is RunStatus.RUNNABLE or run.incarnation != incarnation:
            return await self.finish(
                conversation_id, effect_id, incarnation=incarnation, outcome=outcome, keeps_late=keeps_late
            )
        if run.status is RunStatus.CLAIMED:
            sealed = self.payloads.seal_outcome(conversation_id, effect_id, outcome)
            found.runs[effect_id] = Run(RunStatus.DONE, incarnation=incarnation, outcome=sealed)
        found.postponed, found.looked_at = 0, min(found.looked_at, self._clock() + look_ms)
        return visited

    async def visit(self, conversation_id: str, *, most_bytes: int) -> Visited | None:
        found = self._seen(conversation_id)
        away = bool(found.token) or found.quarantine is not None or found.paused
        if away or not found.log or len(found.snapshot) + found.tail_bytes > most_bytes:
            return None
        return Visited(self._clock(), self._state(conversation_id, found), found.append_id, found.tail_bytes)

    async def refuse(self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes) -> bool:
        check(bool(effect_id and incarnation) and "|" not in incarnation, "arguments")
        run = self._runs(conversation_id).get(effect_id)
        if run is None or run.status is RunStatus.CLAIMED:
            return False
        if run.status is RunStatus.DONE:
            return run.incarnation == incarnation
        self._done(conversation_id, effect_id, incarnation, self.payloads.seal_outcome(conversation_id, effect_id, outcome))
        return True

    def _done(self, conversation_id: str, effect_id: str, incarnation: str, outcome: bytes) -> None:
        """Record an outcome; a conversation without an owner then needs attention."""
        self._runs(conversation_id)[effect_id] = Run(RunStatus.DONE, incarnation=incarnation, outcome=outcome)
        found = self._seen(conversation_id)
        if not found.token and found.quarantine is None:
            found.paused = False
            self._look_now(conversation_id, found)

    async def give_back(self, conversation_id: str, effect_id: str, *, incarnation: str) -> bool:
        check(bool(effect_id and incarnation), "arguments")
        found = self._seen(conversation_id)
        run = found.runs.get(effect_id)
        if run is None or not (run.status is RunStatus.RUNNABLE or claimed(found, effect_id, incarnation)):
            return True
        if not found.token and found.quarantine is None and not found.paused:
            self._look_now(conversation_id, found)
        return not found.token

    async def claims_stand(self, claims: Sequence[tuple[str, str, str]]) -> Sequence[bool]:
        return [claimed(self._seen(name), effect_id, incarnation) for name, effect_id, incarnation in claims]

    async def outcomes(self) -> AsyncIterator[str]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._outcome_listeners.append(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._outcome_listeners.remove(queue)

    async def run(self, conversation_id: str, effect_id: str) -> Run | None:
        return self._opened_runs(conversation_id).get(effect_id)

    async def abandoned(self, conversation_id: str) -> Mapping[str, str]:
        claims = self._seen(conversation_id).abandoned
        return {name: run.incarnation for name, run in claims.items() if run.until == 0 or run.until > self._clock()}

    async def late(self, conversation_id: str) -> Mapping[str, Late]:
        late = self._seen(conversation_id).late
        return {
            name: replace(one, outcome=self.payloads.open_or_leave(one.outcome, "outcome", conversation_id, name))
            for name, one in late.items()
        }

    async def attest(self, incarnation: str, lease_ms: int, *, claims: int = 1) -> None:
        now = self._clock()
        known = {name: one for name, one in self._claims.items() if one[1] > now}
        self._claims = known | {incarnation: (claims, now + CLAIMS_MS)}
        self._attested = {name: until for name, until in self._attested.items() if until > now} | {incarnation: now + lease_ms}

    async def attested(self, incarnation: str) -> bool:
        return self._attested.get(incarnation, 0) > self._clock()

    async def claims_of(self, incarnation: str) -> int:
        found, until = self._claims.get(incarnation, (1, 0))
        return found if until > self._clock() else 1

    async def keep_progress(self, conversation_id: str, effect_id: str, payload: bytes) -> bool:
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
        return {
            effect_id: self.payloads.open_or_leave(sealed, "progress", conversation_id, effect_id)
            for effect_id, sealed in self._kept(conversation_id).items()
        }

    async def publish(self, conversation_id: str, payload: bytes) -> bool:
        sealed = self.payloads.seal(payload, "live", conversation_id)
        listeners = self._listeners.get(conversation_id, [])
        for queue in listeners:
            queue.put_nowait(sealed)
        return bool(listeners)

    async def listen(self, conversation_id: str) -> AsyncIterator[bytes]:
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
