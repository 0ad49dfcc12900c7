"""The store's verbs for one conversation, in memory, and the changes that they make to the lists."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import accumulate

from holdfast.conversation import Event, State
from holdfast.conversation.log.index import PendingEntry, facts
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.errors import ConversationNotFound, Fenced, LeaseHeld, Quarantined

from . import pages
from .changes import CHANGES_AT_ONCE, CHANGES_KEPT, Change, ChangePage, Place, Suspended, page
from .conversations import (
    MOST_PASSING,
    PASSING_MS,
    Acquired,
    Append,
    Appended,
    Blame,
    Finding,
    KnownIds,
    Look,
    Moved,
    Owner,
    Quarantine,
    Takeover,
    TakeoverReason,
)
from .keys import BUCKETS, bucket_of
from .lists import PAGE_BYTES
from .memory_database import Kept, MemoryDatabase, Standing, check
from .pages import PendingPlace
from .runs import Run, RunStatus
from .views import naming

UNSTARTED_LEASES, UNSTARTED_MS = 10, 2_000
"""How many leases, and at least how many ms, an id is held under which nothing was started."""


class MemoryConversations(MemoryDatabase):
    """The verbs of `Conversations` and `Changes`, in memory."""

    async def owner(self, conversation_id: str) -> Owner | None:
        found = self._unexpired(conversation_id)
        if found is None or not (found.log or found.token):
            return None
        quarantine = await self.quarantine(conversation_id)
        return Owner(found.token, found.epoch, found.actor, started=bool(found.log), quarantine=quarantine)

    async def acquire(self, conversation_id: str, takeover: Takeover) -> Acquired | Moved:
        check(bool(takeover.new_token), "arguments")
        found = self._unexpired(conversation_id)
        if (found is None or not found.log) and not takeover.create:
            raise ConversationNotFound(conversation_id)
        quarantine = await self.quarantine(conversation_id)
        if quarantine is not None:
            raise Quarantined(conversation_id, quarantine.reason, quarantine.at)
        found = self._conversations.setdefault(conversation_id, found or Kept())
        now = self._clock()
        state, runs = self._state(conversation_id, found), self._opened_runs(conversation_id)
        if found.token != takeover.new_token:
            if found.token != takeover.seen_token:
                return Moved(Owner(found.token, found.epoch, found.actor))
            if found.token and found.busy and takeover.because is TakeoverReason.ASKED and found.lease > now:
                raise LeaseHeld(conversation_id, found.lease - now)
            found.token, found.actor, found.epoch = takeover.new_token, takeover.actor, found.epoch + 1
            found.lease = now + takeover.lease_ms
            found.expires = None if found.log else now + max(UNSTARTED_LEASES * takeover.lease_ms, UNSTARTED_MS)
            found.postponed, found.paused = 0, False
        return Acquired(found.epoch, now, state, runs, found.blame, found.tail_bytes)

    async def append(self, conversation_id: str, write: Append) -> Appended | KnownIds:
        check(bool(write.token) != (write.seen is not None) and bool(write.append_id), "arguments: an empty token or append id")
        found = self._unexpired(conversation_id) or Kept()
        now = self._clock()
        away = found.token or found.quarantine is not None or found.paused or found.append_id != write.seen
        if (found.append_id != write.append_id and away) if write.seen is not None else found.token != write.token:
            raise Fenced(conversation_id)
        if found.append_id == write.append_id:
            return Appended(now, found.tail_bytes)
        check(len(found.log) == write.before.seq, f"the head is at {len(found.log)}, the writer at {write.before.seq}")
        known = await self.known(conversation_id, write.absent)
        if known:
            return KnownIds(now, known)
        if write.seen is not None and not found.log and not write.events:  # a start that was refused leaves nothing
            return Appended(now)
        first = write.before.seq + 1
        entries = [self.payloads.seal_event(conversation_id, seq, event) for seq, event in enumerate(write.events, first)]
        tail_bytes = write.tail_bytes + sum(map(len, entries))
        fresh = write.snapshot(tail_bytes)
        snapshot = self.payloads.seal_state(conversation_id, write.after) if fresh else found.snapshot
        changes = write.delta
        facts_known, passing = (
            {key: self.payloads.seal_known(conversation_id, key, value) for key, value in records.items()}
            for records in (facts(write.events, first), write.passing)
        )
        # All is checked and encoded: write.
        if self.payloads.cipher is not None:
            await self._note_encryption()
        found.postponed = 0
        if write.seen is not None:
            self._conversations[conversation_id] = found
            found.epoch, look = found.epoch + 1, now + write.lease_ms
            found.looked_at = min(look, found.looked_at) if found.busy else look
        if write.events:
            found.expires = None
        stood = found.standing
        found.append_id, found.lease, found.snapshot = write.append_id, now + write.lease_ms, snapshot
        found.folded = write.after.seq if fresh else found.folded
        found.after = write.after
        for entry in changes.closed:
            found.pending.pop(entry.suspension_id, None)
        found.pending |= {entry.suspension_id: entry for entry in changes.opened}
        if write.events:
            found.at = now
        if write.advances:
            found.blame, found.struck_by = Blame(), frozenset()
        found.log.extend(entries)
        found.known |= facts_known
        if passing:
            kept = self._passing(found) | passing
            found.passing = dict(list(kept.items())[-MOST_PASSING:])
            found.passing_until = now + PASSING_MS
        found.runs |= {effect_id: Run(RunStatus.RUNNABLE) for effect_id in (*changes.scheduled, *write.unrecorded)}
        gone = {effect_id: found.runs.pop(effect_id, None) for effect_id in changes.settled}
        removed = {name: run for name, run in gone.items() if run is not None and run.status is RunStatus.CLAIMED}
        found.abandoned |= {name: run for name, run in removed.items() if "#" in name}
        sides = {"opened": changes.opened, "closed": changes.closed, "noted": changes.noted}
        await self._note_change(conversation_id, found, stood, first=first, **sides)
        return Appended(now, 0 if fresh else tail_bytes, removed)

    async def renew(self, conversation_id: str, token: str, lease_ms: int) -> int:
        found = self._owned(conversation_id, token)
        found.lease, found.postponed = self._clock() + lease_ms, 0
        return self._clock()

    async def release(self, conversation_id: str, token: str, *, paused: bool = False, look_ms: int = 0) -> None:
        check(bool(token), "arguments")
        found = self._seen(conversation_id)
        if found.token != token:
            return
        if not found.log:
            del self._conversations[conversation_id]
            return
        now = self._clock()
        found.token, found.actor, found.lease, found.postponed = "", "", now, 0
        found.paused = paused and found.busy
        done = any(run.status is RunStatus.DONE for run in found.runs.values())
        found.looked_at = now if done else now + look_ms

    async def look(self, conversation_id: str, look_ms: int) -> Look:
        found = self._seen(conversation_id)
        if found.token or not found.busy or found.quarantine is not None or found.paused:
            return Look(Finding.WAKE)
        now, runs = self._clock(), list(found.runs.values())
        due = found.after.due_at if found.after is not None else None
        claims = [run for run in runs if run.status is RunStatus.CLAIMED and run.until > now]
        done = any(run.status is RunStatus.DONE for run in runs)
        unclaimed = len(claims) < sum(run.status is not RunStatus.DONE for run in runs)
        if not runs or unclaimed or (due is not None and due <= now):
            return Look(Finding.WAKE)
        if done:
            return Look(Finding.DONE)
        found.postponed, found.looked_at = 0, min(now + look_ms, *(run.until for run in claims))
        return Look(Finding.PARKED, claims)

    async def strike(
        self, conversation_id: str, token: str, *, process: str, reason: str, limit: int, claims: int = 1
    ) -> Blame | None:
        check(bool(process) and "," not in process and limit > 0, "arguments")
        found = self._seen(conversation_id)
        if not found.log or found.token != token or found.quarantine is not None:
            raise Fenced(conversation_id)
        if process not in found.struck_by:
            found.struck_by |= {process}
            found.blame = found.blame.after(claims)
        if found.blame.crash_count < limit:
            return found.blame
        stood = found.standing
        found.quarantine = self.payloads.seal_text(reason, "quarantine", conversation_id), self._clock()
        found.token, found.actor, found.lease = "", "", self._clock()
        await self._note_change(conversation_id, found, stood, first=len(found.log) + 1)
        return None

    async def retry(self, conversation_id: str) -> bool:
        found = self._seen(conversation_id)
        if found.quarantine is None:
            return False
        stood = found.standing
        found.quarantine, found.blame, found.looked_at, found.postponed = None, Blame(), self._clock(), 0
        found.paused = False
        await self._note_change(conversation_id, found, stood, first=len(found.log) + 1)
        return True

    async def quarantine(self, conversation_id: str) -> Quarantine | None:
        found = self._seen(conversation_id)
        if found.quarantine is None:
            return None
        reason, at = found.quarantine
        return Quarantine(self.payloads.open_text(reason, "quarantine", conversation_id), at)

    async def known(self, conversation_id: str, keys: Sequence[str]) -> Mapping[str, IdempotencyRecord]:
        found = self._seen(conversation_id)
        known = found.known | self._passing(found)
        return {key: self.payloads.open_known(conversation_id, key, known[key]) for key in keys if key in known}

    async def load(self, conversation_id: str) -> State:
        found = self._seen(conversation_id)
        if not found.log:
            raise ConversationNotFound(conversation_id)
        with naming(conversation_id):
            return self._state(conversation_id, found)

    async def read(
        self, conversation_id: str, *, after: int = 0, before: int = 0, limit: int = 500, block_ms: int = 0, whole: bool = False
    ) -> Sequence[tuple[int, Event]]:
        def seqs() -> range:
            length = len(self._seen(conversation_id).log)
            return (range(min(before - 1, length), 0, -1) if before else range(after + 1, length + 1))[:limit]

        if block_ms and not seqs():
            await self._awaited(lambda: bool(seqs()), block_ms)
        page, log = seqs(), self._seen(conversation_id).log
        if not (block_ms or whole):
            weights = accumulate(len(log[seq - 1]) for seq in page)
            page = page[: max(sum(weight <= PAGE_BYTES for weight in weights), 1)]
        with naming(conversation_id):
            return [(seq, self.payloads.open_event(conversation_id, seq, log[seq - 1])) for seq in sorted(page)]

    async def _found(self, suspension_id: str) -> list[PendingPlace]:
        if not pages.is_name(suspension_id):
            return []
        listed = {name: found for name, found in self._conversations.items() if found.listed is not None}
        pages.check_scan(sum(len(found.pending) for found in listed.values()))
        return [
            PendingPlace(name, entry.seq, suspension_id, entry.created_at)
            for name, found in listed.items()
            for entry in found.pending.values()
            if entry.suspension_id == suspension_id
        ][:1]

    async def changes(self, place: Place | None = None, *, block_ms: int = 0) -> ChangePage:
        if place is None:
            return ChangePage((), (await self.changes(Place.before_all_of(self._clock()))).place)
        if block_ms and not self._after(place):
            await self._awaited(lambda: bool(self._after(place)), block_ms)
        found = self._after(place)
        missed = any(
            len(self._changes[bucket]) >= CHANGES_KEPT and self._changes[bucket][0].id >= changes[0].id
            for bucket, changes in found.items()
            if len(changes) >= CHANGES_AT_ONCE
        )
        return page(found, place, missed=missed)

    def _after(self, place: Place) -> dict[int, list[Change]]:
        found = {
            bucket: [change for change in self._changes.get(bucket, ()) if place.before(change)][:CHANGES_AT_ONCE]
            for bucket in range(BUCKETS)
        }
        return {bucket: changes for bucket, changes in found.items() if changes}

    async def _note_change(
        self,
        conversation_id: str,
        found: Kept,
        stood: Standing | None,
        *,
        first: int,
        opened: Sequence[PendingEntry] = (),
        closed: Sequence[PendingEntry] = (),
        noted: Sequence[PendingEntry] = (),
    ) -> None:
        stands = found.standing
        if stands is not None and (stands != stood or opened or closed or noted):
            bucket = bucket_of(conversation_id)
            kept = self._changes.setdefault(bucket, deque(maxlen=CHANGES_KEPT))
            now, last = self._clock(), kept[-1].id if kept else (0, -1)
            id_ = (now, 0) if now > last[0] else (last[0], last[1] + 1)
            come, gone, said = (tuple(_suspended(conversation_id, one) for one in side) for side in (opened, closed, noted))
            kept.append(Change(bucket, id_, conversation_id, first, len(found.log), *stands, come, gone, said))
        async with self._changed:
            self._changed.notify_all()

    def _passing(self, found: Kept) -> dict[str, bytes]:
        return found.passing if self._clock() < found.passing_until else {}

    def _owned(self, conversation_id: str, token: str) -> Kept:
        check(bool(token), "arguments")
        found = self._unexpired(conversation_id)
        if found is None or found.token != token:
            raise Fenced(conversation_id)
        return found


def _suspended(conversation_id: str, one: PendingEntry) -> Suspended:
    return Suspended(one.kind, PendingPlace(conversation_id, one.seq, one.suspension_id, one.created_at))
