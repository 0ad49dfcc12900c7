"""One conversation in a store: its owner, its log and its state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from holdfast.conversation import Event, State
from holdfast.conversation.calls import PendingView
from holdfast.conversation.delta import Delta, delta
from holdfast.conversation.events import (
    CallSuspended,
    ConversationEnded,
    MessageAccepted,
    NothingCancelled,
    RunScheduled,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from holdfast.conversation.idempotency import IdempotencyRecord

from .database import Database
from .runs import Run

TURN_OVER = (TurnCompleted, TurnFailed, TurnCancelled, ConversationEnded)
"""The events whose append always carries a snapshot, which is small then."""
TAIL_BYTES = 64 * 1024
"""How long the tail of the log may become, which every revival reads, before an append carries a snapshot."""
CALL_BYTES = 160
"""About what a call takes in a snapshot."""


class TakeoverReason(StrEnum):
    """Why an activation takes a conversation over."""

    ASKED = "asked"  # somebody needs it; it must be free, at rest, or its lease must have run out
    DIED = "died"  # the caller got `ActorDiedError` for the owner
    OWN = "own"  # the owner itself, after a write whose outcome stayed unknown


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Why nothing of a conversation is carried out, and since when (ms UTC)."""

    reason: str
    at: int


@dataclass(frozen=True, slots=True)
class Owner:
    """Who owns a conversation: the activation's token and ordinal, and the actor that holds it ('' where none does).

    `started` is false while an activation holds an id under which nothing was started yet; in `quarantine` nobody owns it.
    """

    token: str
    epoch: int
    holder: str
    started: bool = True
    quarantine: Quarantine | None = None


@dataclass(frozen=True, slots=True)
class Acquired:
    """A won activation: everything that the actor needs to go on.

    `now` is the store's clock, in ms UTC; `crash_count` is how many processes its effects took down since it last came further;
    `tail_bytes` is the size of the log after the last snapshot.
    """

    epoch: int
    now: int
    state: State
    runs: Mapping[str, Run]
    crash_count: int = 0
    tail_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Moved:
    """Another activation owns the conversation than the one that the caller had seen."""

    owner: Owner


@dataclass(frozen=True, slots=True)
class Append:
    """One atomic write.

    `events` lead from `before` to `after`; with none it only confirms that the writer is still the owner and that the ids in
    `absent` are not known. `append_id` makes it idempotent. `tail_bytes` is what the writer was last told of the log's tail.
    """

    token: str
    append_id: str
    before: State
    after: State
    lease_ms: int
    events: Sequence[Event] = ()
    absent: Sequence[str] = ()
    tail_bytes: int = 0

    def snapshot(self, tail_bytes: int) -> bool:
        """Whether the new state is worth a snapshot, the tail with these events being that long.

        It is when a turn ended, when a call was suspended, since the conversation may rest then, and when the tail has become
        long. The two latter wait until the tail is about as long as the snapshot itself: what is written for snapshots stays in
        proportion to the events, however many calls a turn has.
        """
        if any(isinstance(event, TURN_OVER) for event in self.events):
            return True
        suspended = any(isinstance(event, CallSuspended) for event in self.events)
        return tail_bytes > max(0 if suspended else TAIL_BYTES, CALL_BYTES * len(self.after.calls))

    @property
    def advances(self) -> bool:
        """Whether the conversation has come a step further, so that what its processes died of counts no more."""
        return any(not _standing_still(event) for event in self.events)

    @property
    def delta(self) -> Delta:
        """What changes of the suspensions and runs."""
        return delta(self.before, self.after, self.events)

    @property
    def scheduled(self) -> tuple[str, ...]:
        """Effect ids of the runs that become runnable."""
        return self.delta.scheduled

    @property
    def settled(self) -> tuple[str, ...]:
        """Effect ids of the runs whose records go."""
        return self.delta.settled


def _standing_still(event: Event) -> bool:
    return isinstance(event, MessageAccepted | NothingCancelled) or (isinstance(event, RunScheduled) and event.attempt > 1)


@dataclass(frozen=True, slots=True)
class Appended:
    """The write is durable (as durable as the store is).

    `now` is the store's clock, in ms UTC; `tail_bytes` the size of the log after the last snapshot, for the next write.
    """

    now: int
    tail_bytes: int = 0


@dataclass(frozen=True, slots=True)
class KnownIds:
    """Nothing was written: some ids in `absent` are known."""

    now: int
    known: Mapping[str, IdempotencyRecord]


class Conversations(Database, Protocol):
    """The verbs of a `Store` that concern one conversation: who writes it, what is written, and how it is read."""

    async def owner(self, conversation_id: str) -> Owner | None:
        """Who owns the conversation; None if it was never started and nobody is about to."""
        ...

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
        """Take the conversation over by compare-and-set on the token; repeated with the same `new_token`, the same answer.

        An id under which nothing was started is held for some leases only, and then forgotten with its owner.

        Raises:
            LeaseHeld: The owner still works on it, and `because` is no reason to depose it.
            ConversationNotFound: It was never started, and `create` is false.
            Quarantined: It is in quarantine.
            CipherMissing: It is encrypted, and this store has no cipher; its owner is the one before.
            CipherFailed: It cannot be decrypted; nobody owns it.
        """
        ...

    async def append(self, conversation_id: str, write: Append) -> Appended | KnownIds:
        """Write events, snapshot, receipts, runs and indexes, all or nothing, as the current owner; renews the lease.

        Raises:
            CipherFailed: Something cannot be encrypted, and nothing was written; or what is known cannot be decrypted.
            Fenced: The token is not the owner's.
            CorruptStore: The log does not end where the writer's state does, or a key has the wrong type.
        """
        ...

    async def renew(self, conversation_id: str, token: str, lease_ms: int) -> int:
        """Renew the lease; the store's clock.

        Raises:
            Fenced: The token is not the owner's.
        """
        ...

    async def release(self, conversation_id: str, token: str, *, paused: bool = False) -> None:
        """Give the conversation up; nothing happens if somebody else owns it.

        Where work is outstanding that is `paused`, its deadlines alone need attention until somebody takes it over or
        `readmit` finds that the pause is over.
        """
        ...

    async def strike(self, conversation_id: str, token: str, *, process: str, reason: str, limit: int) -> int | None:
        """Count that the conversation took a process down; its crash count, None: it is in quarantine now.

        The death of one process counts once. Quarantine deposes the owner; nothing is carried out until `retry`. The caller
        need not be the owner: `token` is the owner's as the caller has seen it, '' where there was none. It needs no state, so
        that a conversation that cannot be read can be set aside.

        Raises:
            Fenced: The token is not the owner's (any more), it was never started, or it is in quarantine already.
        """
        ...

    async def retry(self, conversation_id: str) -> bool:
        """Lift the quarantine, so that the conversation is taken up again; false if there was none."""
        ...

    async def quarantine(self, conversation_id: str) -> Quarantine | None:
        """Why and since when the conversation is in quarantine, if it is."""
        ...

    async def known(self, conversation_id: str, keys: Sequence[str]) -> Mapping[str, IdempotencyRecord]:
        """What is known of these ids, beside the log; it needs neither the owner nor the state."""
        ...

    async def load(self, conversation_id: str) -> State:
        """The state as of now: snapshot and tail.

        Raises:
            ConversationNotFound: It was never started.
        """
        ...

    async def read(
        self, conversation_id: str, *, after: int, limit: int = 500, block_ms: int = 0
    ) -> Sequence[tuple[int, Event]]:
        """Events after `after`, in order; with `block_ms`, waits that long for a first one."""
        ...

    async def at(self, conversation_id: str, seqs: Sequence[int]) -> Sequence[Event | None]:
        """The events at these places."""
        ...

    async def pending_of(self, conversation_id: str) -> Sequence[PendingView]:
        """The open suspensions of one conversation, in the model's order of calls."""
        ...
