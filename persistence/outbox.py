"""The outbox: what conversations owe others, from the append that owes it until it was delivered.

What a conversation owes one target is a queue in the order of its log. A courier leases first envelopes, delivers them and
acknowledges them: nothing overtakes, and what a courier says after its lease was given to another changes nothing.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from holdfast.conversation.log.owed import Envelope
from holdfast.errors import InvalidInput

from .database import Database
from .lists import Listing

TRIED_MS = 72 * 3_600_000
"""How long (ms) envelopes of a queue are tried in vain, from the first try since a delivery; then they are set aside."""
ASIDE_MS = 30 * 86_400_000
"""How long (ms) what was set aside is kept: to a day, in a lane with nothing to deliver."""
MOST_ASIDE = 1_000
"""How many of the envelopes that were set aside each lane of a bucket keeps: the latest."""
UNREADABLE = "unreadable"
"""The kind of an envelope that could not be read, and was set aside."""
_ENVELOPE = re.compile(r"([0-9]{1,15})\|([0-9]{1,15})\|([A-Za-z0-9_-]+)\|([0-9]{1,15})")  # as `parts_of` in `_prelude.lua`
_ID = re.compile(r"([^~]{1,128})~(.+)~([0-9]{1,15})\.([0-9]{1,15})\.([^.~]+)\.([0-9]{1,15})", re.DOTALL)
_CURSOR = re.compile(r"([0-9]{1,15})~(.+)", re.DOTALL)


def envelope_text(envelope: Envelope) -> str:
    """The text that a queue holds for an envelope; without its time, the text that an append is given."""
    text = f"{envelope.seq}|{envelope.n}|{envelope.kind}"
    return f"{text}|{envelope.at}" if envelope.at else text


def envelope_of(target: str, text: str) -> Envelope | None:
    """The envelope in a queue's text; None for a text that Holdfast never wrote."""
    found = _ENVELOPE.fullmatch(text)
    return None if found is None else Envelope(found[3], target, int(found[1]), int(found[2]), int(found[4]))


def outbox_id(conversation_id: str, envelope: Envelope) -> str:
    """The id by which operators name an envelope."""
    return f"{conversation_id}~{envelope.target}~{envelope.seq}.{envelope.n}.{envelope.kind}.{envelope.at}"


def of_outbox_id(name: object) -> tuple[str, Envelope]:
    """The conversation and the envelope that an id names; `InvalidInput` if it is none."""
    found = _ID.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        raise InvalidInput("id", f"{name!r:.60} names nothing in the outbox", "take an id that `holdfast outbox` shows")
    return found[1], Envelope(found[5], found[2], int(found[3]), int(found[4]), int(found[6]))


def cursor_of(since: int, key: str) -> str:
    """The cursor of the page after a row of that time and key."""
    return f"{since}~{key}"


def after_cursor(cursor: str | None) -> tuple[int, str]:
    """The time and key of the row after which a page begins."""
    if cursor is None:
        return 0, ""
    found = _CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
    if found is None:
        raise InvalidInput("after", f"{cursor!r:.60} is not a cursor", "pass the `next` of the page before, or leave it out")
    return int(found[1]), found[2]


class OutboxState(StrEnum):
    """Whether an envelope is still to be delivered."""

    OWED = "owed"  # it is delivered as soon as its target takes it
    SET_ASIDE = "set_aside"  # it was given up, until an operator has it delivered or drops it


class Verdict(StrEnum):
    """What became of the delivery of a leased envelope."""

    DELIVERED = "delivered"  # the target has it
    LATER = "later"  # it is to be tried again
    ASIDE = "aside"  # repetitions are of no use


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane of one bucket, and when (ms UTC) there is something to deliver, or to drop."""

    bucket: int
    name: str
    due_at: int


@dataclass(frozen=True, slots=True)
class Leased:
    """An envelope that is leased to one courier: `nonce` acknowledges it. `tries` counts this one, too."""

    conversation_id: str
    envelope: Envelope
    nonce: str
    tries: int


@dataclass(frozen=True, slots=True)
class Leases:
    """What was leased in a lane, and how much was `dropped` from it: too old, too much, or of no conversation."""

    leased: Sequence[Leased] = ()
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """An envelope in the outbox: the first of a queue, or one that was set aside. Times in ms UTC.

    `since` is when it was owed, or set aside; `waiting` how many stand in its queue, it included; `due_at` when it is tried
    next, 0 if it was set aside; `reason` why the last try failed, '' without one.
    """

    conversation_id: str
    envelope: Envelope
    state: OutboxState
    since: int
    waiting: int = 0
    tries: int = 0
    due_at: int = 0
    reason: str = ""

    @property
    def key(self) -> str:
        """What tells rows of one time apart."""
        return f"{self.conversation_id}|{self.envelope.target}|{envelope_text(self.envelope)}"


@dataclass(frozen=True, slots=True)
class OwedFigures:
    """What is owed to one target (or lane): queues with something to deliver, since when the oldest is owed, and set aside."""

    queues: int = 0
    since: int | None = None
    set_aside: int = 0

    def and_of(self, other: "OwedFigures") -> "OwedFigures":
        """Both together."""
        since = min((at for at in (self.since, other.since) if at is not None), default=None)
        return OwedFigures(self.queues + other.queues, since, self.set_aside + other.set_aside)


@dataclass(frozen=True, slots=True)
class OutboxFigures:
    """The figures of each lane, at the time `now` (ms UTC) of the store's clock."""

    now: int
    lanes: Mapping[str, OwedFigures] = field(default_factory=dict)


class Outbox(Database, Protocol):
    """The verbs of a `Store` that concern what conversations owe. Appends and quarantines fill the outbox."""

    async def lanes(self) -> tuple[int, Sequence[Lane]]:
        """The store's clock (ms UTC), and the lanes with something to deliver or to drop, now or later."""

    async def lease(
        self, lane: Lane, *, most: int, lease_ms: int, aside_ms: int = ASIDE_MS, most_aside: int = MOST_ASIDE
    ) -> Leases:
        """Lease up to `most` first envelopes that are due in a lane; nobody else gets them for `lease_ms`.

        An envelope that cannot be read is set aside, what is no queue is forgotten, and what is of no conversation is dropped.
        So are, the oldest first, envelopes that were set aside longer than `aside_ms` ago, or are more than `most_aside`.
        """

    async def acknowledge(
        self, leased: Leased, verdict: Verdict, *, reason: str = "", after_ms: int = 0, tried_ms: int = TRIED_MS
    ) -> Verdict | None:
        """Say what became of a leased envelope; returns what was done, or None if the lease does not stand any more.

        An envelope for `LATER` is tried again after `after_ms`, or set aside once its queue was tried in vain for `tried_ms`.
        """

    async def outbox(self, state: OutboxState, *, limit: int, after: str | None = None) -> Listing:
        """A page of `OutboxRow`: the first envelope of each queue, or those that were set aside; the oldest first."""

    async def redeliver(self, name: str) -> bool:
        """Have the envelope of that id delivered now, also if it was set aside; false if there is none.

        Raises:
            InvalidInput: The text is no id.
        """

    async def drop_owed(self, name: str) -> bool:
        """Remove the envelope of that id undelivered; false if there is none. Raises as `redeliver`."""

    async def outbox_figures(self) -> OutboxFigures:
        """What is owed and set aside, by lane."""

    def owed_news(self) -> AsyncIterator[Lane | None]:
        """An item whenever something has become owed: its lane, None if it may be any; some may be missed."""
