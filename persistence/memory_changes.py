"""The changes of the lists in memory."""

from collections import deque
from collections.abc import Sequence

from holdfast.conversation import Status
from holdfast.conversation.log.index import PendingEntry

from .changes import CHANGES_AT_ONCE, CHANGES_KEPT, Change, ChangePage, Place, Suspended, page
from .keys import BUCKETS, bucket_of
from .memory_database import MemoryDatabase
from .memory_kept import Kept
from .pages import PendingPlace

Standing = tuple[str, Status, int]


class MemoryChanges(MemoryDatabase):
    """The verbs of `Changes`, in memory."""

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
        stands = standing_of(found)
        if stands is not None and (stands != stood or opened or closed or noted):
            bucket = bucket_of(conversation_id)
            kept = self._changes.setdefault(bucket, deque(maxlen=CHANGES_KEPT))
            now, last = self._clock(), kept[-1].id if kept else (0, -1)
            id_ = (now, 0) if now > last[0] else (last[0], last[1] + 1)
            come, gone, said = (tuple(_suspended(conversation_id, one) for one in side) for side in (opened, closed, noted))
            kept.append(Change(bucket, id_, conversation_id, first, len(found.log), *stands, come, gone, said))
        async with self._changed:
            self._changed.notify_all()


def _suspended(conversation_id: str, one: PendingEntry) -> Suspended:
    return Suspended(one.kind, PendingPlace(conversation_id, one.seq, one.suspension_id, one.created_at))


def standing_of(found: Kept) -> Standing | None:
    """A conversation's agent, status and number of open suspensions, as lists show them; None before its start."""
    return None if found.after is None or not found.after.seq else (found.after.agent, found.status, len(found.pending))
