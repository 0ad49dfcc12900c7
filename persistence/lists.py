"""The lists over all conversations: open suspensions, conversations, attention, troubles, and counts."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from pydantic import Field

from holdfast.conversation import Status, SuspensionKind

from .database import Database
from .pausing import Pausing

PAGE_BYTES = 8 * 1024 * 1024
"""The most log bytes, as stored, behind one page; the page ends there, and `next` says where to go on."""
TROUBLES = 1000
"""The most conversations in trouble that a store names; further ones are supervised all the same."""
TROUBLE_MS = 300_000
"""How long (ms) a trouble is kept without being met again: it ended unseen, or moved on."""


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """One conversation in a list."""

    conversation_id: str
    agent: Annotated[str, Field(description="The name of the conversation's agent.")]
    status: Status | None
    created_at: Annotated[int, Field(description="When the conversation was started, in integer milliseconds UTC.")]
    updated_at: Annotated[int, Field(description="When its last event was decided, in integer milliseconds UTC.")]
    pending: Annotated[int, Field(description="How many of its calls wait for a decision.")]
    problem: Annotated[
        str | None,
        Field(description="Why the conversation cannot be read; fields that could not be read are empty, 0 or None."),
    ] = None


@dataclass(frozen=True, slots=True)
class Listing:
    """One page; `next` is the cursor of the next one, None at the end."""

    items: Sequence[Any]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Due:
    """The conversations that need attention at the time `now` (ms UTC) of the store's clock."""

    now: int
    conversation_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class Overdue:
    """The number of overdue conversations, and the longest overdue, each with its due time (ms UTC)."""

    count: int
    longest: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True, slots=True)
class Trouble:
    """A conversation that cannot be taken up, why, and since when (ms UTC)."""

    conversation_id: str
    reason: str
    since: int


@dataclass(frozen=True, slots=True)
class Census:
    """The numbers of conversations and open suspensions, from the indexes.

    `begun` counts the conversations started since the requested time, `fullest` those in the fullest bucket, `lost` the open
    suspensions of kind `lost`.
    """

    conversations: int
    begun: int
    fullest: int
    pending: int
    lost: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A bucket with rebuilt indexes: its conversations, the stale entries removed, and the problems."""

    bucket: int
    conversations: int
    removed: int
    problems: Sequence[str]


class Lists(Pausing, Database, Protocol):
    """The verbs of a `Store` that concern many conversations: pages, attention, troubles and pauses.

    A page raises `InvalidInput` if the limit is no whole number from 1 to 1000, or `after` is no cursor.
    """

    async def pending(
        self, *, limit: int, after: str | None = None, agent: str | None = None, kind: SuspensionKind | None = None
    ) -> Listing:
        """A page of open suspensions (`PendingView`), oldest first. An unreadable one is a row with a `problem`.

        Rows are shortened (`PendingView.cut`). A page is read from at most `PAGE_BYTES` of logs, but has at least one row.
        """

    async def conversations(
        self,
        *,
        limit: int,
        after: str | None = None,
        agent: str | None = None,
        status: Status | None = None,
        given: bool = False,
    ) -> Listing:
        """A page of conversations (`ConversationRow`), oldest first. An unreadable one is a row with a `problem`.

        `given` selects those with grants or votes, of all agents and in every status.
        """

    def reindex(self) -> AsyncIterator[Rebuilt]:
        """Rebuild every index from the states, bucket by bucket, under the append's fence; conversations go on meanwhile."""

    async def attention(self, limit: int) -> Due:
        """The conversations that need attention now, the longest overdue first in each bucket."""

    async def postpone(self, conversation_id: str, delay_ms: int) -> None:
        """Have an overdue conversation looked at again in `delay_ms`; its next write sets the time anew.

        A conversation that needs no attention (any more), or does not exist, leaves the index.
        """

    async def overdue(self, late_ms: int, *, limit: int) -> Overdue:
        """The conversations overdue by at least `late_ms`, at most `limit` of them by name.

        A conversation that cannot be taken up is postponed, so `troubles` lists it instead.
        """

    async def census(self, *, since: int) -> Census:
        """The numbers of conversations and open suspensions; `begun` counts from this time (ms UTC)."""

    async def troubled(self, conversation_id: str, reason: str | None) -> int:
        """Note why a conversation cannot be taken up (None: it can); returns for how many ms it has been in trouble."""

    async def troubles(self) -> Sequence[Trouble]:
        """At most `TROUBLES` conversations in trouble, the longest troubled first."""
