"""The lists over all conversations: open suspensions, conversations, attention, troubles, pauses, and their numbers."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

from pydantic import Field

from holdfast.conversation import Principal, Status, StopReason, SuspensionKind
from holdfast.errors import InvalidInput

from .database import Database

PAUSE_LAG_MS = 1_000
"""The greatest age (ms) of a worker's view of the pauses: this long after a pause, no paused work begins any more."""
MOST_PAUSED = 64
"""The most pauses, since each look reads all of them; only the namespace's own pause may exceed this."""


@dataclass(frozen=True, slots=True)
class Pause:
    """The pause of one agent, or of the whole namespace: its new work waits."""

    agent: Annotated[str | None, Field(description="The agent whose work waits; None: the whole namespace.")]
    reason: Annotated[str, Field(description="The reason given for the pause; may be empty.")]
    by: Annotated[str, Field(description="The user and the machine that paused the work, as the pausing process says.")]
    since: Annotated[int, Field(description="The start of the pause, in integer milliseconds UTC by the store's clock.")]
    duplicate: Annotated[
        bool,
        Field(description="Whether the work was paused already; the other fields are then those of the earlier pause."),
    ] = False


@dataclass(frozen=True, slots=True)
class Paused:
    """The pauses at the time `now` (ms UTC) of the store's clock."""

    now: int
    pauses: Sequence[Pause] = ()

    def of(self, agent: str) -> Pause | None:
        """The pause that holds this agent's new work, the namespace's before the agent's own; None if there is none."""
        return next((pause for pause in self.pauses if pause.agent in (None, agent)), None)


def too_many() -> InvalidInput:
    """The error for a pause beyond `MOST_PAUSED`."""
    fix = "lift some of them (`holdfast unpause --agent NAME`), or pause the whole namespace"
    return InvalidInput("agent", f"there are {MOST_PAUSED} pauses already", fix)


class Pausing(Protocol):
    """The verbs of a `Store` that pause new work, and lift pauses."""

    async def pause(self, agent: str | None, *, by: str, reason: str) -> Pause:
        """Pause the new work of an agent, or (None) of the namespace; an existing pause stays as it is.

        Raises:
            InvalidInput: There are `MOST_PAUSED` other pauses, and this one is an agent's.
        """

    async def unpause(self, agent: str | None) -> Pause | None:
        """Lift only the pause of this agent, or (None) of the namespace, and return it; None if there was none."""

    async def paused(self) -> Paused:
        """The pauses: the namespace's first, then those of agents by name."""

    async def readmit(self, limit: int) -> int:
        """Put conversations that were released as paused, and are held no longer, up for attention again; returns how many.

        At most `limit` conversations in each bucket are readmitted at a time.
        """


PAGE_BYTES = 8 * 1024 * 1024
"""The most log bytes, as stored, behind one page; the page ends there, and `next` says where to go on."""
TROUBLES = 1000
"""The most conversations in trouble that a store names; further ones are supervised all the same."""
TROUBLE_MS = 300_000
"""How long (ms) a trouble is kept after it was last met."""


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
    stopped: Annotated[
        StopReason | None, Field(description="What stopped its last turn, or cut the reply off; None if nothing did.")
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
        self,
        *,
        limit: int,
        after: str | None = None,
        agent: str | None = None,
        kind: SuspensionKind | None = None,
        tool: str | None = None,
        approver: Principal | None = None,
        older_than_s: float | None = None,
        expires_within_s: float | None = None,
    ) -> Listing:
        """A page of open suspensions (`PendingView`), oldest first. An unreadable one is a row with a `problem`.

        Rows are shortened (`PendingView.cut`). A page is read from at most `PAGE_BYTES` of logs; rows may be missing on it, but
        with `agent` and `kind` alone it has at least one. With `expires_within_s` those that expire first come first.
        `approver` leaves out most calls that this principal may not decide, but not all.
        """

    async def indexed(self) -> bool:
        """Whether the indexes by id, tool, decider and deadline hold every open suspension, as `reindex` makes them."""

    async def conversations(
        self,
        *,
        limit: int,
        after: str | None = None,
        agent: str | None = None,
        status: Status | None = None,
        given: bool = False,
        stopped: bool | None = None,
    ) -> Listing:
        """A page of conversations (`ConversationRow`), oldest first. An unreadable one is a row with a `problem`.

        `given` selects those with grants or votes, of all agents and in every status; `stopped` those whose last turn was
        stopped, or its reply cut off: a page of them may be shorter if `agent` or `status` is given, too.
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


SERIES = 10_000
"""The most counts that a store keeps by name; further names are not counted."""
AGENTS = 50
"""The most agents counted by name; the others are counted together."""
AGES_S = (300, 3600, 86_400)
"""The ages, in seconds, by which pending calls are counted."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The number of open suspensions, and when the oldest began (ms UTC; None: unknown)."""

    count: int
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """The numbers of a store at the time `now` (ms UTC) of its clock.

    `counts` are added up over all processes, by name. `pending` counts open suspensions by agent and kind, agents of no
    published app under ''; `older` those by kind and minimum age (seconds, of `AGES_S`). `actors` live, `offers` are up for
    adoption. `conversations` counts by status, `hosted` those with an actor, `unhosted` those without, by status, `paused`
    those released because of a pause.
    """

    now: int
    counts: Mapping[str, int] = field(default_factory=dict)
    conversations: Mapping[Status, int] = field(default_factory=dict)
    pending: Mapping[tuple[str, SuspensionKind], Waiting] = field(default_factory=dict)
    older: Mapping[tuple[SuspensionKind, int], int] = field(default_factory=dict)
    actors: int = 0
    offers: int = 0
    hosted: int = 0
    paused: int = 0
    unhosted: Mapping[Status, int] = field(default_factory=dict)


class Tallies(Database, Protocol):
    """The verbs of a `Store` that concern its numbers as a whole."""

    async def count(self, counts: Mapping[str, int]) -> None:
        """Add these numbers (at least 0) to the counts of these names; a count only grows.

        Once the store keeps `SERIES` names, new ones are left out; names that differ only after their last `|`, like those of a
        histogram, are kept or left out together. After `StoreUnavailable` a repetition may count twice.
        """

    async def survey(self) -> Survey:
        """The numbers of conversations, open suspensions and actors now. Reads only indexes, no log."""
