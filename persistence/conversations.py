"""One conversation in a store: its owner, its log and its state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Protocol

from holdfast.conversation import Event, State
from holdfast.conversation.log.fold import spent_by
from holdfast.conversation.log.index import Delta, delta
from holdfast.conversation.log.owed import Envelope
from holdfast.conversation.records.calls import PendingView
from holdfast.conversation.records.event_base import Used
from holdfast.conversation.records.events import (
    CallSuspended,
    CompactionRequested,
    Ended,
    MessageAccepted,
    ModelAnswered,
    NothingCancelled,
    RunScheduled,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.conversation.terms.budget import DAY_MS, DaySpent, Per, Spent

from .database import Database
from .runs import Run

NO_EVENTS: Mapping[int, Event] = {}
FEW_CLAIMS = 8
"""The most claims of a dead process for which each of their conversations gets a strike."""
TURN_OVER = (TurnCompleted, TurnFailed, TurnCancelled, Ended)
"""Events whose append always carries a snapshot, which is small then."""
TAIL_BYTES = 64 * 1024
"""The size in bytes of the log tail at which an append carries a snapshot: every revival reads the tail."""
MOST_PASSING = 256
"""The most idempotency records per conversation of requests that changed nothing; the oldest is dropped first."""
PASSING_MS = 24 * 3_600_000
"""How long (ms) those records are kept after the last of them came."""
CALL_BYTES = 160
"""The approximate size in bytes of a call in a snapshot."""


class TakeoverReason(StrEnum):
    """Why an activation takes a conversation over."""

    ASKED = "asked"  # a caller needs the conversation; it must be free, at rest, or its lease must have run out
    DIED = "died"  # the caller got `ActorDiedError` for the owner
    OWN = "own"  # the owner itself takes over, after a write whose outcome stayed unknown


@dataclass(frozen=True, slots=True)
class Takeover:
    """What a takeover compares and sets, in the order of `acquire.lua`: the owner's token as it was seen, and the next owner's.

    With `create`, the id may be one under which nothing was started.
    """

    seen_token: str
    new_token: str
    because: TakeoverReason
    actor: str
    lease_ms: int
    create: bool = False


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A conversation's quarantine: why its work stopped, and since when (ms UTC)."""

    reason: str
    at: int


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a conversation: the activation's token and epoch, and the name of its actor ('' if there is none).

    `started` is false while an activation holds an id under which nothing was started yet. In `quarantine` there is no owner.
    """

    token: str
    epoch: int
    actor: str
    started: bool = True
    quarantine: Quarantine | None = None


@dataclass(frozen=True, slots=True)
class Blame:
    """A conversation's blame for dead processes, since the last progress in its log.

    `crash_count` is how many processes its work is believed to have crashed; `max_claims` the most claims that a process may
    have if it runs this work, that work included (0: any number).
    """

    crash_count: int = 0
    max_claims: int = 0

    def after(self, claims: int) -> "Blame":
        """The blame after the death of one more process, which had this many claims; `strike.lua` does the same.

        Of many claims nearly all are innocent, so none gets a strike: the next process may only have half as many. Soon at most
        `FEW_CLAIMS` are left, the guilty one among them. The number only shrinks, so a wrong number cannot prolong the
        search.
        """
        among = min(self.max_claims or claims, claims)
        return Blame(self.crash_count, among // 2) if among > FEW_CLAIMS else Blame(self.crash_count + 1, 1)


@dataclass(frozen=True, slots=True)
class Acquired:
    """A won activation: everything that the actor needs to go on.

    `now` is the store's clock, in ms UTC; `blame` counts the processes that crashed during its work since its last progress;
    `tail_bytes` is the size of the log after the last snapshot.
    """

    epoch: int
    now: int
    state: State
    runs: Mapping[str, Run]
    blame: Blame = field(default_factory=Blame)
    tail_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Visited:
    """A conversation without an owner, as a guest read it. A guest judges one command and writes without becoming the owner.

    `now` is the store's clock, in ms UTC; `append_id` is the id of the last write (`Append.seen` of the guest's write, which is
    refused if another came first); `tail_bytes` is the size of the log after the last snapshot.
    """

    now: int
    state: State
    append_id: str
    tail_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Moved:
    """The conversation has another owner than the caller saw."""

    owner: Owner


@dataclass(frozen=True)
class Append:
    """One atomic write.

    `events` lead from `before` to `after`; a write without events only confirms that the writer is still the owner and that the
    keys in `absent` are unknown. `append_id` makes the write idempotent. `tail_bytes` is the size of the log tail, as the
    writer was last told. `unrecorded` are outstanding model calls without a record, which get one. `passing` are idempotency
    records of requests that changed nothing: a conversation keeps up to `MOST_PASSING` of them, for `PASSING_MS`.

    A guest has no `token`: it writes if nobody owns the conversation and the last write is still the `seen` one ('' before the
    start). It leaves the conversation without an owner; outstanding work then needs attention after `lease_ms`. With `claim`
    (an effect, and the incarnation that claimed it) it also needs that claim: it writes an outcome that is recorded nowhere.
    An empty incarnation stands for work that nobody has claimed: the outcome says why it does not begin.

    `owed` is what the events owe; the store sets its time. `quarantine_owes` are the targets of a quarantine's notice.

    From `until_ms` on (ms UTC by the store's clock) nothing is written: what the write begins may be paused by then.

    `due_at` is when (ms UTC) something is due, if the writer knows better than the state: what was due has been looked at, and
    nothing has changed.
    """

    token: str
    append_id: str
    before: State
    after: State
    lease_ms: int
    events: Sequence[Event] = ()
    absent: Sequence[str] = ()
    tail_bytes: int = 0
    unrecorded: Sequence[str] = ()
    passing: Mapping[str, IdempotencyRecord] = field(default_factory=dict)
    seen: str | None = None
    claim: tuple[str, str] | None = None
    until_ms: int | None = None
    due_at: int | None = None
    owed: Sequence[Envelope] = ()
    quarantine_owes: Sequence[str] = ()

    def snapshot(self, tail_bytes: int) -> bool:
        """Whether the write carries a snapshot of the new state, given the size of the log tail with these events.

        It does when a turn ended, when a call was suspended (the conversation may rest then), and when the tail has become
        long. In the last two cases the tail must be about as long as the snapshot itself: so the bytes of snapshots stay in
        proportion to the events, however many calls a turn has.
        """
        if any(isinstance(event, TURN_OVER) for event in self.events):
            return True
        suspended = any(isinstance(event, CallSuspended) for event in self.events)
        return tail_bytes > max(0 if suspended else TAIL_BYTES, CALL_BYTES * len(self.after.calls))

    @property
    def due(self) -> int | None:
        """When (ms UTC) something is due after the write; None: nothing waits for a time."""
        return self.after.due_at if self.due_at is None else self.due_at

    @property
    def advances(self) -> bool:
        """Whether the events are progress, which sets the crash count to 0."""
        return any(not _standing_still(event) for event in self.events)

    @property
    def spent(self) -> DaySpent | None:
        """What the events add to what the agent uses on a day, if it has a budget for each; the write counts it, once."""
        if self.before.turn is None or Per.DAY not in self.before.turn.budgets:
            return None
        paid = [event for event in self.events if isinstance(event, ModelAnswered | Used)]
        return DaySpent(paid[0].at // DAY_MS, sum(map(spent_by, paid), Spent())) if paid else None

    @cached_property
    def delta(self) -> Delta:
        """The changed suspensions and work records."""
        return delta(self.before, self.after, self.events)


def _standing_still(event: Event) -> bool:
    asks = isinstance(event, MessageAccepted | CompactionRequested | NothingCancelled)
    return asks or (isinstance(event, RunScheduled) and event.attempt > 1)


@dataclass(frozen=True, slots=True)
class Appended:
    """The write is durable (as durable as the store is).

    `now` is the store's clock, in ms UTC; `tail_bytes` the size of the log after the last snapshot, for the next write;
    `removed` are the claims of settled work, by effect id: their workers may still be running it.
    """

    now: int
    tail_bytes: int = 0
    removed: Mapping[str, Run] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KnownIds:
    """Nothing was written: some keys in `Append.absent` are known, with these records; or, without any, it was too late."""

    now: int
    known: Mapping[str, IdempotencyRecord]


class Conversations(Database, Protocol):
    """The verbs of a `Store` that concern one conversation: its owner, its writes and its reads."""

    async def owner(self, conversation_id: str) -> Owner | None:
        """The owner; None if nothing was started under the id and no activation holds it."""

    async def acquire(self, conversation_id: str, takeover: Takeover) -> Acquired | Moved:
        """Take the conversation over by compare-and-set on the token; idempotent by the new token.

        An id under which nothing was started is held for some leases only, and then forgotten with its owner.

        Raises:
            LeaseHeld: The owner still works on the conversation, and `because` is no reason to depose it.
            ConversationNotFound: The conversation was never started, and `create` is false.
            Quarantined: The conversation is in quarantine.
            CipherMissing: The conversation is encrypted, and this store has no cipher; the owner stays.
            CipherFailed: The conversation cannot be decrypted; the takeover is undone.
        """

    async def append(self, conversation_id: str, write: Append) -> Appended | KnownIds:
        """Write events, snapshot, receipts, runs and indexes, all or nothing, as the current owner or as a guest.

        It renews the lease of an owner.

        Raises:
            CipherFailed: A payload cannot be encrypted, or a known record cannot be decrypted; nothing was written.
            Fenced: The token is not the owner's; for a guest: the conversation has an owner, is in quarantine or was released
                as paused, or another write came first.
            CorruptStore: The log does not end where the writer's state does, or a key has the wrong type.
        """

    async def finish_as_guest(
        self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes, keeps_late: bool, look_ms: int
    ) -> Visited | bool:
        """Like `finish`; if the conversation has no owner, also read it, so that the caller judges the outcome as a guest.

        Listeners are not told then: a guest that writes nothing must call `finish`, which tells them. If the guest dies, the
        conversation needs attention after `look_ms`. Returns the answer of `finish` (a bool) if the conversation has an owner,
        is in quarantine, or cannot be read by the caller.
        """

    async def visit(self, conversation_id: str, *, most_bytes: int) -> Visited | None:
        """Read a conversation without an owner, so that the caller judges a command as a guest; nothing is written.

        None if it has an owner, is in quarantine, was released as paused or was never started; if its snapshot and log tail
        have more than `most_bytes`; or if the caller cannot read them.
        """

    async def renew(self, conversation_id: str, token: str, lease_ms: int) -> int:
        """Renew the lease as the current owner (else: `Fenced`); returns the store's clock in ms UTC."""

    async def release(self, conversation_id: str, token: str, *, paused: bool = False, look_ms: int = 0) -> None:
        """Give the conversation up; does nothing if the token is not the owner's.

        A conversation with work at workers needs attention after `look_ms`, or at once if an outcome is recorded, which is
        published then (`outcomes`). One released as `paused` with outstanding work needs attention only for its deadlines,
        until an activation takes it over or `readmit` finds that the pause is over.
        """

    async def look(self, conversation_id: str, look_ms: int) -> Sequence[Run]:
        """The claims of a conversation without an owner, if workers have all its work; empty if it must be woken.

        In the first case it needs attention again after `look_ms`, or when due before.
        """

    async def strike(
        self, conversation_id: str, token: str, *, process: str, reason: str, limit: int, claims: int = 1
    ) -> Blame | None:
        """Count the death of a process with so many claims against this conversation; None if it is in quarantine now.

        One process counts once, as `Blame.after` says. Quarantine deposes the owner; no work runs until `retry`. The caller
        need not be the owner: `token` is the owner's as the caller saw it, '' if there was none. The state is not read, so an
        unreadable conversation can be set aside too.

        Raises:
            Fenced: The token is not the owner's, or the conversation was never started or is in quarantine already.
        """

    async def retry(self, conversation_id: str) -> bool:
        """Lift the quarantine, so that the conversation is taken up again; false if there was none."""

    async def quarantine(self, conversation_id: str) -> Quarantine | None:
        """The conversation's quarantine; None if it is in none."""

    async def known(self, conversation_id: str, keys: Sequence[str]) -> Mapping[str, IdempotencyRecord]:
        """The known idempotency records among these keys; read without the owner or the state."""

    async def load(self, conversation_id: str) -> State:
        """The present state, folded from the snapshot and the log tail; `ConversationNotFound` if never started."""

    async def read(
        self, conversation_id: str, *, after: int = 0, before: int = 0, limit: int = 500, block_ms: int = 0, whole: bool = False
    ) -> Sequence[tuple[int, Event]]:
        """A part of the log: at most `limit` events, each with its `seq`, of `PAGE_BYTES` together, but at least one.

        They are the first ones after `after` or, if `before` is not 0, the last ones before `before`. Only an empty part shows
        that the log is at its end. With `block_ms`, the read waits that long for an event after `after`. Then, and with
        `whole`, the size in bytes has no bound.
        """

    async def at(self, conversation_id: str, seqs: Sequence[int]) -> Sequence[Event | None]:
        """The events at these places in the log; None for each place without one."""

    async def pending_of(self, conversation_id: str | None, suspension_id: str | None = None) -> Sequence[PendingView]:
        """The open suspensions of one conversation, or the one of that id alone, in the model's order of calls.

        They are whole as far as `PAGE_BYTES` of the log reach, the first one always; further ones are shortened. Without a
        conversation, the beginning of a suspension's id is enough: `pages.SHORTEST_ID` characters, if no other begins so.

        Raises:
            ConversationNotFound: The conversation was never started.
            InvalidInput: No conversation is named, and several suspensions begin so, or the indexes are of an older version.
        """

    async def pending_in(
        self, state: State, suspension_id: str | None = None, *, known: Mapping[int, Event] = NO_EVENTS
    ) -> Sequence[PendingView]:
        """As `pending_of`, of a conversation whose state and perhaps some events, by their `seq`, are `known` already."""
