"""One conversation in a store: its owner, its log and its state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from holdfast.conversation import Event, State
from holdfast.conversation.log.delta import Delta, delta
from holdfast.conversation.records.calls import PendingView
from holdfast.conversation.records.events import (
    CallSuspended,
    Ended,
    MessageAccepted,
    NothingCancelled,
    RunScheduled,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from holdfast.conversation.records.idempotency import IdempotencyRecord

from .database import Database
from .runs import Run

SMALL_COMPANY = 8
"""Up to how many claims a process has died of each of them, for all that is known."""
TURN_OVER = (TurnCompleted, TurnFailed, TurnCancelled, Ended)
"""The events whose append always carries a snapshot, which is small then."""
TAIL_BYTES = 64 * 1024
"""How many bytes the log tail, which every revival reads, may have before an append carries a snapshot."""
MOST_PASSING = 256
"""How many idempotency records of requests that changed nothing a conversation has; the oldest gives way."""
PASSING_MS = 24 * 3_600_000
"""How long (ms) they are kept after the last of them came."""
CALL_BYTES = 160
"""About how many bytes a call takes in a snapshot."""


class TakeoverReason(StrEnum):
    """Why an activation takes a conversation over."""

    ASKED = "asked"  # a caller needs the conversation; it must be free, at rest, or its lease must have run out
    DIED = "died"  # the caller got `ActorDiedError` for the owner
    OWN = "own"  # the owner itself takes over, after a write whose outcome stayed unknown


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A conversation's quarantine: why none of its work is carried out, and since when (ms UTC)."""

    reason: str
    at: int


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a conversation: the activation's token and epoch, and the actor that is the holder ('' where there is none).

    `started` is false while an activation holds an id under which nothing was started yet; a conversation in `quarantine` has
    no owner.
    """

    token: str
    epoch: int
    holder: str
    started: bool = True
    quarantine: Quarantine | None = None


@dataclass(frozen=True, slots=True)
class Blame:
    """What the deaths of processes count for against a conversation, since its log last got further.

    Attributes:
        crash_count: How many processes its work took down, for all that is known.
        company: How many claims a process may have that does its work, that work included; 0 for any number.
    """

    crash_count: int = 0
    company: int = 0

    def after(self, claims: int) -> "Blame":
        """The blame once one more process has died that had so many claims; `strike.lua` does the same.

        Where they were many, nearly all had no part in it: none is struck, and the next process has half of them at most. So
        the guilty one is among `SMALL_COMPANY` soon. The company only shrinks: a number of claims that is wrong ends no search.
        """
        among = min(self.company or claims, claims)
        return Blame(self.crash_count, among // 2) if among > SMALL_COMPANY else Blame(self.crash_count + 1, 1)


@dataclass(frozen=True, slots=True)
class Acquired:
    """A won activation: everything that the actor needs to go on.

    `now` is the store's clock, in ms UTC; `blame` is what the processes count for that its effects took down since its last
    progress; `tail_bytes` is the size of the log after the last snapshot.
    """

    epoch: int
    now: int
    state: State
    runs: Mapping[str, Run]
    blame: Blame = field(default_factory=Blame)
    tail_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Moved:
    """The conversation has another owner than the one that the caller had seen."""

    owner: Owner


@dataclass(frozen=True, slots=True)
class Append:
    """One atomic write.

    `events` lead from `before` to `after`; a write of no events only confirms that the writer is still the owner and that the
    keys in `absent` are not known. `append_id` makes the write idempotent. `tail_bytes` is the size of the log tail, as the
    writer was last told. `unrecorded` are outstanding model calls that have no record, and get one. `passing` are idempotency
    records of a request that changed nothing: of these a conversation has `MOST_PASSING`, and forgets them after `PASSING_MS`.
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

    def snapshot(self, tail_bytes: int) -> bool:
        """Whether the write carries a snapshot of the new state, given the bytes of the log tail with these events.

        It does when a turn ended, when a call was suspended, since the conversation may rest then, and when the tail has become
        long. The two latter wait until the tail is about as long as the snapshot itself: the bytes written for snapshots stay
        in proportion to the events, however many calls a turn has.
        """
        if any(isinstance(event, TURN_OVER) for event in self.events):
            return True
        suspended = any(isinstance(event, CallSuspended) for event in self.events)
        return tail_bytes > max(0 if suspended else TAIL_BYTES, CALL_BYTES * len(self.after.calls))

    @property
    def advances(self) -> bool:
        """Whether the events bring the conversation a step further, which sets its crash count to 0."""
        return any(not _standing_still(event) for event in self.events)

    @property
    def delta(self) -> Delta:
        """The changes of suspensions and work records."""
        return delta(self.before, self.after, self.events)


def _standing_still(event: Event) -> bool:
    return isinstance(event, MessageAccepted | NothingCancelled) or (isinstance(event, RunScheduled) and event.attempt > 1)


@dataclass(frozen=True, slots=True)
class Appended:
    """The write is durable (as durable as the store is).

    `now` is the store's clock, in ms UTC; `tail_bytes` the size of the log after the last snapshot, for the next write;
    `removed` are the claims of work that the write settled, by effect id: their workers may still be at it.
    """

    now: int
    tail_bytes: int = 0
    removed: Mapping[str, Run] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KnownIds:
    """Nothing was written: some keys in `Append.absent` are known, with these idempotency records."""

    now: int
    known: Mapping[str, IdempotencyRecord]


class Stands(StrEnum):
    """How a conversation that needs attention stands."""

    PARKED = "parked"  # nobody owns it, and all its work is claimed, within the bounds of the claims
    DONE = "done"  # nobody owns it, and an outcome is recorded: an activation finds that
    WAKE = "wake"  # something is due, or the work or its owner may be lost


@dataclass(frozen=True, slots=True)
class Look:
    """How a conversation stands that needs attention, and the claims by which a parked one goes on."""

    stands: Stands
    claims: Sequence[Run] = ()


class Conversations(Database, Protocol):
    """The verbs of a `Store` that concern one conversation: who writes it, what is written, and how it is read."""

    async def owner(self, conversation_id: str) -> Owner | None:
        """The owner of the conversation; None if nothing was started under the id and no activation holds the id."""

    async def acquire(
        self,
        conversation_id: str,
        *,
        seen_token: str,
        new_token: str,
        because: TakeoverReason,
        holder: str,
        lease_ms: int,
        create: bool = False,
    ) -> Acquired | Moved:
        """Take the conversation over by compare-and-set on the token; repeated with the same `new_token`, it answers the same.

        An id under which nothing was started is held for some leases only, and then forgotten with its owner.

        Raises:
            LeaseHeld: The owner still works on the conversation, and `because` is no reason to depose the owner.
            ConversationNotFound: The conversation was never started, and `create` is false.
            Quarantined: The conversation is in quarantine.
            CipherMissing: The conversation is encrypted, and this store has no cipher; the owner stays the one before.
            CipherFailed: The conversation cannot be decrypted; the takeover is given up again.
        """

    async def append(self, conversation_id: str, write: Append) -> Appended | KnownIds:
        """Write events, snapshot, receipts, runs and indexes, all or nothing, as the current owner; renews the lease.

        Raises:
            CipherFailed: A payload cannot be encrypted, or a known record cannot be decrypted; nothing was written.
            Fenced: The token is not the owner's.
            CorruptStore: The log does not end where the writer's state does, or a key has the wrong type.
        """

    async def renew(self, conversation_id: str, token: str, lease_ms: int) -> int:
        """Renew the lease as the current owner (else: `Fenced`), and return the store's clock in ms UTC."""

    async def release(self, conversation_id: str, token: str, *, paused: bool = False, look_ms: int = 0) -> None:
        """Give the conversation up; nothing happens if the token is not the owner's.

        A conversation whose work goes on at workers needs attention after `look_ms`, or at once if an outcome is recorded.

        A conversation released as `paused` while work is outstanding needs attention only for its deadlines, until an
        activation takes it over or `readmit` finds that the pause is over.
        """

    async def look(self, conversation_id: str, look_ms: int) -> Look:
        """How a conversation stands that needs attention; a parked one needs it again after `look_ms`, or when due before."""

    async def strike(
        self, conversation_id: str, token: str, *, process: str, reason: str, limit: int, claims: int = 1
    ) -> Blame | None:
        """Count that a process with so many claims died of this conversation; None if it is in quarantine now.

        The death of one process counts once, as `Blame.after` says.

        Quarantine deposes the owner; no work is carried out until `retry`. The caller need not be the owner: `token` is the
        owner's as the caller has seen it, '' where there was none. The state is not read, so a conversation that cannot be read
        can be set aside too.

        Raises:
            Fenced: The token is not the owner's (any more), or the conversation was never started or is in quarantine already.
        """

    async def retry(self, conversation_id: str) -> bool:
        """Lift the quarantine, so that the conversation is taken up again; false if it was in none."""

    async def quarantine(self, conversation_id: str) -> Quarantine | None:
        """Why and since when the conversation is in quarantine, if it is."""

    async def known(self, conversation_id: str, keys: Sequence[str]) -> Mapping[str, IdempotencyRecord]:
        """The idempotency records under these keys, as far as there are any; read without the owner or the state."""

    async def load(self, conversation_id: str) -> State:
        """The state as of now, folded from the snapshot and the log tail.

        Raises:
            ConversationNotFound: The conversation was never started.
        """

    async def read(
        self, conversation_id: str, *, after: int = 0, before: int = 0, limit: int = 500, block_ms: int = 0, whole: bool = False
    ) -> Sequence[tuple[int, Event]]:
        """A part of the log: at most `limit` events, each with its `seq`, of `PAGE_BYTES` together, but one at least.

        They are the first ones after the place `after`, or, where `before` is no 0, the last ones before that place. A part
        that has fewer than `limit` events need not be the last one: an empty one is.

        With `block_ms`, the read waits that long for a first event after `after`. Then, and with `whole`, the part has no
        bound in bytes.
        """

    async def at(self, conversation_id: str, seqs: Sequence[int]) -> Sequence[Event | None]:
        """The events at these places in the log, None for each place where there is none."""

    async def pending_of(self, conversation_id: str | None, suspension_id: str | None = None) -> Sequence[PendingView]:
        """The open suspensions of one conversation, or the one of that id alone, in the model's order of calls.

        They are whole as far as they are read from `PAGE_BYTES` of the log, the first one always; further ones are in short.

        Without a conversation, the suspension of that id is looked for among all open ones, inside the server: the indexes are
        ordered by time.

        Raises:
            ConversationNotFound: The conversation was never started.
            InvalidInput: No conversation is named, and more than `pages.MOST_SCANNED` suspensions are open.
        """
