"""Changes of the lists over all conversations, in order, with cursors that resume without a gap.

Each bucket keeps its latest `CHANGES_KEPT` changes in a stream, written by the append that made them. The id of a change is the
time of the store's clock and a number within that millisecond. All buckets share the clock, so a cursor is one time, plus the
changes of that millisecond that were seen.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Protocol

from holdfast.conversation import Status, SuspensionKind
from holdfast.conversation.records.calls import PendingView
from holdfast.errors import InvalidInput

from .keys import BUCKETS
from .pages import PendingPlace

CHANGES_KEPT = 2000
"""The fewest changes that a full bucket keeps (see `note_change` in `_prelude.lua`)."""
CHANGES_AT_ONCE = 20
"""The most changes of each bucket on one page."""
CURSOR = re.compile(r"([0-9]{1,15})((?:_[0-5]?[0-9]-[0-9]{1,9}|_6[0-3]-[0-9]{1,9}){0,64})")
"""The text of a cursor: milliseconds UTC, then per bucket the last number seen within that millisecond."""

Id = tuple[int, int]
"""The id of a change in its bucket: milliseconds UTC, and a number from 0."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """A suspension that changed: its kind, and its place."""

    kind: SuspensionKind
    place: PendingPlace


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one conversation in the lists: its status, its open suspensions, or the notes on one of them.

    `id` is unique in the `bucket`. `first` and `seq` are those of the first and last event that made the change; `seq` is
    smaller than `first` if no event did (a quarantine begins or ends). `status` and `pending` (calls that wait for a decision)
    are the new values. `noted` are open suspensions with a new vote, comment, assignment or escalation. `cursor` resumes after
    this change; it is empty while the change is not on a page.
    """

    bucket: int
    id: Id
    conversation_id: str
    first: int
    seq: int
    agent: str
    status: Status
    pending: int
    opened: tuple[Suspended, ...] = ()
    closed: tuple[Suspended, ...] = ()
    noted: tuple[Suspended, ...] = ()
    cursor: str = ""

    def told(self) -> "Change":
        """The change as readers are told of it: an escalated suspension, whose entry was replaced, was noted."""
        both = {one.place.suspension_id for one in self.opened} & {one.place.suspension_id for one in self.closed}
        if not both:
            return self
        begins, ends = (
            tuple(one for one in side if one.place.suspension_id not in both) for side in (self.opened, self.closed)
        )
        moved = (one for one in self.opened if one.place.suspension_id in both)
        return replace(self, opened=begins, closed=ends, noted=(*self.noted, *moved))

    @property
    def at(self) -> int:
        """The time of the change, in integer milliseconds UTC."""
        return self.id[0]


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the changes: per bucket, the id after which to go on; the number -1 precedes a millisecond's changes."""

    ids: Mapping[int, Id]

    @classmethod
    def before_all_of(cls, at: int) -> "Place":
        """The place before all changes of a time (ms UTC)."""
        return cls(dict.fromkeys(range(BUCKETS), (at, -1)))

    @classmethod
    def of(cls, cursor: str) -> "Place":
        """The place that a cursor names; `InvalidInput` if Holdfast did not make the text."""
        found = CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
        pairs = [pair.split("-") for pair in found[2].split("_")[1:]] if found is not None else []
        seen = {int(bucket): int(number) for bucket, number in pairs}
        if found is None:
            problem = f"{cursor!a:.60} is not a cursor"
            raise InvalidInput("after", problem, "pass the cursor of the last event that was received, or leave it out")
        return cls({bucket: (int(found[1]), seen.get(bucket, -1)) for bucket in range(BUCKETS)})

    @property
    def at(self) -> int:
        """The time of the latest change read, in integer milliseconds UTC."""
        return max(ms for ms, _ in self.ids.values())

    @property
    def cursor(self) -> str:
        """The cursor of this place."""
        return self.cursor_at(self.at)

    def cursor_at(self, at: int) -> str:
        """The cursor of this place, given that no change later than this time (ms UTC) was read."""
        seen = sorted((bucket, number) for bucket, (ms, number) in self.ids.items() if ms == at and number >= 0)
        return "_".join([str(at), *(f"{bucket}-{number}" for bucket, number in seen)])

    def before(self, change: Change) -> bool:
        """Whether a change comes after this place."""
        return self.ids[change.bucket] < change.id

    def past(self, change: Change) -> "Place":
        """The place after a change."""
        return Place({**self.ids, change.bucket: change.id})


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Some changes, oldest first, and the place after them, where the next page begins.

    `missed` says that changes were dropped before they were read: the lists must then be read again.
    """

    items: Sequence[Change]
    place: Place = field(repr=False)
    missed: bool = False


class Changes(Protocol):
    """The verbs of a `Store` that follow the lists."""

    async def changes(self, place: Place | None = None, *, block_ms: int = 0) -> ChangePage:
        """The changes after a place; waits up to `block_ms` for one. Without a place: no changes, and the present place."""

    async def pending_at(self, places: Sequence[PendingPlace]) -> Sequence[PendingView]:
        """The suspensions, open or closed, at these places in their logs, as rows like those of `Lists.pending`."""


def page(found: Mapping[int, Sequence[Change]], place: Place, *, missed: bool) -> ChangePage:
    """A page from each bucket's changes after a place, of which at most `CHANGES_AT_ONCE` were read.

    If a bucket has more, changes of other buckets that are later than its last one read wait for the next page.
    """
    more = [changes[-1].at for changes in found.values() if len(changes) >= CHANGES_AT_ONCE]
    until = min(more) if more else None
    items = []
    for change in sorted(chain.from_iterable(found.values()), key=lambda one: (one.at, one.bucket, one.id)):
        if until is None or change.at <= until:
            place = place.past(change)
            items.append(replace(change, cursor=place.cursor_at(change.at)))
    return ChangePage(items, place, missed)
