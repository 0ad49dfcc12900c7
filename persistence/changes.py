"""Changes of the lists over all conversations, in their order, and cursors that resume them without a gap.

Each bucket keeps its latest changes (`CHANGES_KEPT` of them) in a stream, written with the append that made them. The id of a
change is the time of the store's clock and a number within that millisecond; all buckets share the clock, so a cursor is a
time, with the changes of that very millisecond that were seen.
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
"""How many changes a bucket keeps at least (see `note_change` in `_prelude.lua`)."""
CHANGES_AT_ONCE = 20
"""How many changes of each bucket one page has at most."""
CURSOR = re.compile(r"([0-9]{1,15})((?:_[0-5]?[0-9]-[0-9]{1,9}|_6[0-3]-[0-9]{1,9}){0,64})")
"""The text of a cursor: milliseconds UTC, and of each bucket in which changes of that millisecond were seen the last number."""

Id = tuple[int, int]
"""The id of a change in its bucket: milliseconds UTC, and a number from 0."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """A suspension that changed: its kind, and where it is."""

    kind: SuspensionKind
    place: PendingPlace


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one conversation in the lists: another status, other open suspensions, or something else to say of one.

    Attributes:
        bucket: The conversation's bucket.
        id: The change's id there.
        conversation_id: The conversation.
        first: The `seq` of the first of the events that made the change.
        seq: The `seq` of the last one; smaller than `first` where no event did: a quarantine begins or ends.
        agent: The name of the conversation's agent.
        status: The status from now on.
        pending: How many of its calls wait for a decision from now on.
        opened: The suspensions that opened.
        closed: The suspensions that closed.
        noted: Those that stay open, and on which somebody voted or commented, or which somebody took on or gave back.
        cursor: The cursor that resumes after this change; empty while it is not on a page.
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

    @property
    def at(self) -> int:
        """When it was, in integer milliseconds UTC."""
        return self.id[0]


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the changes: of each bucket the id after which it goes on.

    A number of -1 stands before all changes of its millisecond.
    """

    ids: Mapping[int, Id]

    @classmethod
    def before_all_of(cls, at: int) -> "Place":
        """The place before the changes of a moment (ms UTC)."""
        return cls(dict.fromkeys(range(BUCKETS), (at, -1)))

    @classmethod
    def of(cls, cursor: str) -> "Place":
        """The place that a cursor stands for.

        Raises:
            InvalidInput: The text is no cursor that Holdfast made.
        """
        found = CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
        pairs = [pair.split("-") for pair in found[2].split("_")[1:]] if found is not None else []
        seen = {int(bucket): int(number) for bucket, number in pairs}
        if found is None:
            problem = f"{cursor!a:.60} is not a cursor"
            raise InvalidInput("after", problem, "pass the cursor of the last event that was received, or leave it out")
        return cls({bucket: (int(found[1]), seen.get(bucket, -1)) for bucket in range(BUCKETS)})

    @property
    def at(self) -> int:
        """The latest moment of which something was read, in integer milliseconds UTC."""
        return max(ms for ms, _ in self.ids.values())

    @property
    def cursor(self) -> str:
        """The cursor that stands for this place."""
        return self.cursor_at(self.at)

    def cursor_at(self, at: int) -> str:
        """The cursor for this place if nothing after that moment (ms UTC) was read yet."""
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
    """Some changes, oldest first.

    Attributes:
        items: The changes.
        place: The place after them, from which the next page is read.
        missed: Whether changes after the earlier place were dropped before they were read: the lists must be read anew.
    """

    items: Sequence[Change]
    place: Place = field(repr=False)
    missed: bool = False


class Changes(Protocol):
    """The verbs of a `Store` for those who follow the lists."""

    async def changes(self, place: Place | None = None, *, block_ms: int = 0) -> ChangePage:
        """The changes after a place, awaited for `block_ms` if there are none; without a place, none, and the present one."""

    async def pending_at(self, places: Sequence[PendingPlace]) -> Sequence[PendingView]:
        """The suspensions at these places in their logs, also if they are closed, as rows of `Lists.pending` are."""


def page(found: Mapping[int, Sequence[Change]], place: Place, *, missed: bool) -> ChangePage:
    """A page of the changes of each bucket after a place, of which at most `CHANGES_AT_ONCE` were read.

    Where a bucket has more, changes of others that are later than what was read of it wait for the next page.
    """
    more = [changes[-1].at for changes in found.values() if len(changes) >= CHANGES_AT_ONCE]
    until = min(more) if more else None
    items = []
    for change in sorted(chain.from_iterable(found.values()), key=lambda one: (one.at, one.bucket, one.id)):
        if until is None or change.at <= until:
            place = place.past(change)
            items.append(replace(change, cursor=place.cursor_at(change.at)))
    return ChangePage(items, place, missed)
