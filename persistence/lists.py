"""The lists over all conversations: what is pending, what must be looked at, what is wrong, how much there is."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.conversation import Status, SuspensionKind

from .database import Database
from .pausing import Pausing

TROUBLES = 1000
"""How many conversations in trouble a store names; the others are supervised all the same."""
TROUBLE_MS = 300_000
"""How long a trouble stands that nobody has met again: it ended without the sweeper, or moved on."""


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """One conversation in a list. Times in integer milliseconds UTC.

    `problem` says why it cannot be read; what is not known then is empty, 0 or None.
    """

    conversation_id: str
    agent: str
    status: Status | None
    created_at: int
    updated_at: int
    pending: int
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """One page: `next` is the cursor of the page after it, None at the end."""

    items: Sequence[Any]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Due:
    """What needs attention by the store's clock."""

    now: int
    conversation_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class Overdue:
    """How many conversations should have been looked at long ago, and the longest overdue of them: each with its moment."""

    count: int
    longest: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a conversation that needs attention cannot be taken up, and since when (ms UTC)."""

    conversation_id: str
    reason: str
    since: int


@dataclass(frozen=True, slots=True)
class Census:
    """How many there are of each, by the indexes.

    `begun` counts the conversations that were started at or after the moment that was asked for; `fullest` is the number of
    conversations in the fullest of the buckets.
    """

    conversations: int
    begun: int
    fullest: int
    pending: int
    lost: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A bucket whose indexes are rebuilt: of how many conversations, how many stale entries went, and what cannot be read."""

    bucket: int
    conversations: int
    removed: int
    problems: Sequence[str]


class Lists(Pausing, Database, Protocol):
    """The verbs of a `Store` that concern many conversations: pages of them, those that need attention, and pauses."""

    async def pending(
        self, *, limit: int, after: str | None = None, agent: str | None = None, kind: SuspensionKind | None = None
    ) -> Listing:
        """A page of open suspensions (`PendingView`), oldest first. What one conversation spoils is a row with a `problem`."""
        ...

    async def conversations(
        self, *, limit: int, after: str | None = None, agent: str | None = None, status: Status | None = None
    ) -> Listing:
        """A page of conversations (`ConversationRow`), oldest first. What cannot be read is a row with a `problem`."""
        ...

    def reindex(self) -> AsyncIterator[Rebuilt]:
        """Make every index anew from the states, bucket by bucket, under the append's fence; others may write meanwhile."""
        ...

    async def attention(self, limit: int) -> Due:
        """Conversations whose moment of attention has come, the longest overdue first in each bucket."""
        ...

    async def postpone(self, conversation_id: str, delay_ms: int) -> None:
        """Have a conversation that is overdue looked at again in `delay_ms`; its next write says anew when it must be.

        A conversation that needs no attention (any more), or of which there is nothing, leaves the index.
        """
        ...

    async def overdue(self, late_ms: int, *, limit: int) -> Overdue:
        """The conversations whose moment of attention passed so long ago, at most `limit` of them by name.

        What cannot be taken up is postponed, and is in trouble instead; see `Store.troubles`.
        """
        ...

    async def census(self, *, since: int) -> Census:
        """How many there are, and how many conversations were started since a moment (ms UTC)."""
        ...

    async def troubled(self, conversation_id: str, reason: str) -> int:
        """Note why a conversation cannot be taken up; since how many ms that is so."""
        ...

    async def untroubled(self, conversation_id: str) -> None:
        """Forget a conversation's trouble."""
        ...

    async def troubles(self) -> Sequence[Trouble]:
        """The conversations in trouble, the longest first; at most `TROUBLES`."""
        ...
