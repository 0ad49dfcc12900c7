"""The outbox in memory."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence

from holdfast.conversation.log.owed import Envelope, lane_of
from holdfast.redaction import PLAIN

from . import pages
from .keys import bucket_of
from .lists import Listing
from .memory_conversations import MemoryConversations
from .memory_queues import Aside, Queue
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
    of_outbox_id,
)


class MemoryOutbox(MemoryConversations):
    """The verbs of `Outbox`, in memory."""

    def _in_lane(self, lane: Lane) -> list[tuple[int, str, Queue]]:
        found = [
            (queue.due_at, conversation_id, queue)
            for (conversation_id, target), queue in self._owed.queues.items()
            if (bucket_of(conversation_id), lane_of(target)) == (lane.bucket, lane.name)
        ]
        return sorted(found, key=lambda one: one[:2])

    async def lanes(self) -> tuple[int, Sequence[Lane]]:
        due = {
            (bucket_of(one.conversation_id), lane_of(one.envelope.target)): one.at + ASIDE_MS for one in self._owed.aside[::-1]
        }
        for (conversation_id, target), queue in self._owed.queues.items():
            lane = bucket_of(conversation_id), lane_of(target)
            due[lane] = min(queue.due_at, due.get(lane, queue.due_at))
        return self._clock(), [Lane(*lane, due_at) for lane, due_at in due.items()]

    async def lease(
        self, lane: Lane, *, most: int, lease_ms: int, aside_ms: int = ASIDE_MS, most_aside: int = MOST_ASIDE
    ) -> Leases:
        now, nonce = self._clock(), uuid.uuid4().hex
        due = [(name, queue) for due_at, name, queue in self._in_lane(lane) if due_at <= now][:most]
        for _, queue in due:
            if queue.nonce and queue.leased != queue.envelopes[0]:  # what it was leased for was dropped
                queue.tries, queue.since = 0, None
            queue.nonce, queue.leased = nonce, queue.envelopes[0]
            queue.tries, queue.due_at = queue.tries + 1, now + lease_ms
            queue.since = now if queue.since is None else queue.since
        leased = [Leased(name, queue.envelopes[0], nonce, queue.tries) for name, queue in due]
        return Leases(leased, self._drop_aside(lane, now - aside_ms, most_aside))

    def _drop_aside(self, lane: Lane, before: int, most: int) -> int:
        """Drop what was set aside in a lane before a time, and the oldest of more than `most`; returns how many."""
        place = lane.bucket, lane.name
        found = [one for one in self._owed.aside if (bucket_of(one.conversation_id), lane_of(one.envelope.target)) == place]
        dropped = [one for number, one in enumerate(found) if one.at <= before or number < len(found) - most]
        for one in dropped:
            self._owed.aside.remove(one)
        return len(dropped)

    async def acknowledge(
        self, leased: Leased, verdict: Verdict, *, reason: str = "", after_ms: int = 0, tried_ms: int = TRIED_MS
    ) -> Verdict | None:
        name, now = leased.conversation_id, self._clock()
        queue = self._owed.queues.get((name, leased.envelope.target))
        if queue is None or queue.nonce != leased.nonce or queue.since is None:
            return None
        if queue.leased not in queue.envelopes:  # it was dropped meanwhile, and the next one has waited for it
            queue.due_at, queue.nonce, queue.tries, queue.since, queue.reason = now, "", 0, None, b""
            return None
        said = self.payloads.seal_text(PLAIN.redacted(reason, 500), "outbox", name)
        too_long = verdict is Verdict.LATER and now - queue.since >= tried_ms
        queue.nonce = ""
        if verdict is Verdict.LATER and not too_long:
            queue.due_at, queue.reason = now + after_ms, said
            return verdict
        done = Verdict.DELIVERED if verdict is Verdict.DELIVERED else Verdict.ASIDE
        if done is Verdict.ASIDE:
            self._owed.aside.append(Aside(name, leased.envelope, now, said))
        self._next(name, leased.envelope, since=queue.since if too_long else None)
        return done

    def _next(self, conversation_id: str, envelope: Envelope, *, since: int | None = None) -> None:
        """Remove an envelope that was to be delivered; the next one is due."""
        queue = self._owed.queues[conversation_id, envelope.target]
        queue.envelopes.remove(envelope)
        queue.due_at, queue.nonce, queue.tries, queue.since, queue.reason = self._clock(), "", 0, since, b""
        if not queue.envelopes:
            del self._owed.queues[conversation_id, envelope.target]

    async def redeliver(self, name: str) -> bool:
        return self._redelivered(*of_outbox_id(name), drop=False)

    async def drop_owed(self, name: str) -> bool:
        return self._redelivered(*of_outbox_id(name), drop=True)

    def _redelivered(self, conversation_id: str, envelope: Envelope, *, drop: bool) -> bool:
        place, now = (conversation_id, envelope.target), self._clock()
        queue = self._owed.queues.get(place)
        is_leased = queue is not None and bool(queue.nonce) and queue.due_at > now
        aside = next(
            (one for one in self._owed.aside if (one.conversation_id, one.envelope) == (conversation_id, envelope)), None
        )
        if aside is not None:
            self._owed.aside.remove(aside)
            if not drop:
                self._owed.owe(conversation_id, [envelope], self._clock())
        elif queue is None or envelope not in queue.envelopes:
            return False
        elif drop and (len(queue.envelopes) == 1 or (queue.envelopes[0] == envelope and not is_leased)):
            self._next(conversation_id, envelope)
        elif drop:
            queue.envelopes.remove(envelope)
        queue = self._owed.queues.get(place)
        if queue is not None and not is_leased:  # else the next one does not overtake what is being delivered
            queue.due_at = now
            self._owed.tell()
        return True

    async def outbox(self, state: OutboxState, *, limit: int, after: str | None = None) -> Listing:
        limit, begin = pages.check_limit(limit), after_cursor(after)
        found = self._owed_rows() if state is OutboxState.OWED else self._aside_rows()
        rows = sorted((row for row in found if (row.since, row.key) > begin), key=lambda row: (row.since, row.key))
        return Listing(rows[:limit], cursor_of(rows[limit - 1].since, rows[limit - 1].key) if len(rows) > limit else None)

    def _owed_rows(self) -> list[OutboxRow]:
        return [
            OutboxRow(
                conversation_id,
                queue.envelopes[0],
                OutboxState.OWED,
                queue.envelopes[0].at,
                waiting=len(queue.envelopes),
                tries=queue.tries,
                due_at=queue.due_at,
                reason=self.payloads.open_text(queue.reason, "outbox", conversation_id) if queue.reason else "",
            )
            for (conversation_id, _), queue in self._owed.queues.items()
        ]

    def _aside_rows(self) -> list[OutboxRow]:
        return [
            OutboxRow(
                one.conversation_id,
                one.envelope,
                OutboxState.SET_ASIDE,
                one.at,
                reason=self.payloads.open_text(one.reason, "outbox", one.conversation_id),
            )
            for one in self._owed.aside
        ]

    async def outbox_figures(self) -> OutboxFigures:
        figures: dict[str, OwedFigures] = {}
        found = [(target, OwedFigures(1, queue.envelopes[0].at)) for (_, target), queue in self._owed.queues.items()]
        found += [(one.envelope.target, OwedFigures(set_aside=1)) for one in self._owed.aside]
        for target, one in found:
            figures[lane_of(target)] = figures.get(lane_of(target), OwedFigures()).and_of(one)
        return OutboxFigures(self._clock(), figures)

    async def owed_news(self) -> AsyncIterator[Lane | None]:
        listener: asyncio.Queue[None] = asyncio.Queue()
        self._owed.listeners.append(listener)
        try:
            while True:
                await listener.get()
                yield None
        finally:
            self._owed.listeners.remove(listener)
