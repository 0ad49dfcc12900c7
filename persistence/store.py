"""What Holdfast asks of a store, in its own verbs.

Every method may raise `StoreUnavailable`; a write that raised it may or may not have happened (its outcome is unknown) and is
safe to repeat with the same ids. `RedisStore` and `MemoryStore` pass the same conformance suite
(`holdfast.testing.conformance`).
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from pydantic import Field

from holdfast.conversation import AgentSpec, Event, State, Status, SuspensionKind
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
from holdfast.conversation.record import Record

from .directory import Directory
from .inspection import Inspection
from .pausing import Pausing
from .supervision import Supervision

TURN_OVER = (TurnCompleted, TurnFailed, TurnCancelled, ConversationEnded)
"""The events whose append always carries a snapshot, which is small then."""
TAIL_BYTES = 64 * 1024
"""How long the tail of the log may become, which every revival reads, before an append carries a snapshot."""
CALL_BYTES = 160
"""About what a call takes in a snapshot."""

PROGRESS_MS = 24 * 3_600_000
"""For how long the last progress of a run is kept when no other report follows."""


class TakeoverReason(StrEnum):
    """Why an activation takes a conversation over."""

    ASKED = "asked"  # somebody needs it; it must be free, at rest, or its lease must have run out
    DIED = "died"  # the caller got `ActorDiedError` for the owner
    OWN = "own"  # the owner itself, after a write whose outcome stayed unknown


class RunStatus(StrEnum):
    """Where a run stands."""

    RUNNABLE = "runnable"  # no worker has taken it
    CLAIMED = "claimed"  # a worker's incarnation has taken it, just before the body
    DONE = "done"  # its outcome is recorded, and not yet in the log


@dataclass(frozen=True, slots=True)
class Run:
    """The record of one run; `worker` is the actor's name, `outcome` an encoded `RunFinished`."""

    status: RunStatus
    incarnation: str = ""
    worker: str = ""
    outcome: bytes = b""


@dataclass(frozen=True, slots=True)
class Late:
    """An outcome (an encoded `RunFinished`) that came when nobody waited for it any more; `at` in ms UTC."""

    at: int
    outcome: bytes


@dataclass(frozen=True, slots=True)
class Owner:
    """Who owns a conversation: the activation's token and ordinal, and the actor that holds it ('' where none does).

    `started` is false while an activation holds an id under which nothing was started yet; in `quarantine` nobody owns it.
    """

    token: str
    epoch: int
    holder: str
    started: bool = True
    quarantine: "Quarantine | None" = None


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
class Quarantine:
    """Why nothing of a conversation is carried out, and since when (ms UTC)."""

    reason: str
    at: int


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


class AppRecord(Record):
    """What the last who published the app said of it; names of variables, never their values.

    `code` tells its workers apart; `source` is the digest of its source files, `prints` tell values of its variables apart. The
    `signature` is made with a key that is not in the store.
    """

    app: str
    code: str
    python_path: tuple[str, ...] = ()
    main_file: str | None = None
    environment: tuple[str, ...] = ()
    agents: Mapping[str, str] = Field(default_factory=dict)
    source: str = ""
    prints: Mapping[str, str] = Field(default_factory=dict)
    signature: str = ""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A bucket whose indexes are rebuilt: of how many conversations, how many stale entries went, and what cannot be read."""

    bucket: int
    conversations: int
    removed: int
    problems: Sequence[str]


@dataclass(frozen=True, slots=True)
class Due:
    """What needs attention by the store's clock."""

    now: int
    conversation_ids: Sequence[str]


class Store(Supervision, Inspection, Pausing, Directory, Protocol):
    """The one place where conversations are kept.

    Where payloads are encrypted, whatever reads or writes one may raise `CipherMissing` or `CipherFailed`. Lists, and texts
    that say what is wrong, say so in its place.
    """

    namespace: str

    async def open(self) -> str:
        """Check the server and this namespace's layout, create what is missing; the store's id.

        Raises:
            UnsupportedServer: The server is too old.
            WrongStore: It is another store than this object has seen before.
            NewerRecord: The layout was written by a newer Holdfast.
        """
        ...

    async def identity(self) -> str | None:
        """The store's id, None where nothing was ever opened; unlike `open`, it creates and checks nothing."""
        ...

    async def close(self) -> None:
        """Give up the connections."""
        ...

    async def weaknesses(self) -> Sequence[str]:
        """In which cases this store may lose what it acknowledged, one sentence each; none if it tells nothing of itself."""
        ...

    async def encrypted(self) -> bool:
        """Whether some of its payloads are encrypted: whoever has no cipher leaves it to those that have one."""
        ...

    async def now(self) -> int:
        """The store's clock, in integer milliseconds UTC."""
        ...

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

    async def claim(
        self, conversation_id: str, effect_id: str, *, incarnation: str, worker: str, until: int | None = None
    ) -> bool:
        """Move a run from runnable to claimed; true also if this incarnation has claimed it before.

        After `until`, in ms UTC by the store's clock, it is not claimed any more: what allowed it may not hold by then.
        """
        ...

    async def finish(self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes) -> bool:
        """Move a run from claimed to done; false if it is not this incarnation's, or settled.

        An outcome of what is settled is late: it changes nothing, and is kept beside the log.
        """
        ...

    async def late(self, conversation_id: str) -> Mapping[str, Late]:
        """The outcomes that came late, by effect id."""
        ...

    async def run(self, conversation_id: str, effect_id: str) -> Run | None:
        """The record of a run, None once it is settled."""
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

    async def pending(
        self, *, limit: int, after: str | None = None, agent: str | None = None, kind: SuspensionKind | None = None
    ) -> Listing:
        """A page of open suspensions (`PendingView`), oldest first. What one conversation spoils is a row with a `problem`."""
        ...

    async def pending_of(self, conversation_id: str) -> Sequence[PendingView]:
        """The open suspensions of one conversation, in the model's order of calls."""
        ...

    async def conversations(
        self, *, limit: int, after: str | None = None, agent: str | None = None, status: Status | None = None
    ) -> Listing:
        """A page of conversations (`ConversationRow`), oldest first. What cannot be read is a row with a `problem`."""
        ...

    async def attention(self, limit: int) -> Due:
        """Conversations whose moment of attention has come, the longest overdue first in each bucket."""
        ...

    def reindex(self) -> AsyncIterator[Rebuilt]:
        """Make every index anew from the states, bucket by bucket, under the append's fence; others may write meanwhile."""
        ...

    async def put_app(self, record: AppRecord, specs: Sequence[AgentSpec]) -> None:
        """Record what stands for an app from now on, with its specs."""
        ...

    async def app(self, path: str) -> AppRecord | None:
        """What stands for an app."""
        ...

    async def spec(self, digest: str) -> AgentSpec | None:
        """A spec by its digest."""
        ...

    async def put_problem(self, path: str, problem: str | None) -> None:
        """Record why workers cannot run an app, from now on or as before, or (None) that they can."""
        ...

    async def problem(self, path: str) -> str | None:
        """Why workers cannot run an app; None if they can, as far as is known."""
        ...

    async def keep_progress(self, conversation_id: str, effect_id: str, payload: bytes) -> bool:
        """Keep the last progress of a claimed run for those who look later; false if the run is not claimed.

        What is kept of a conversation's runs goes `PROGRESS_MS` after the last report.
        """
        ...

    async def progress(self, conversation_id: str) -> Mapping[str, bytes]:
        """The last progress that is kept, by effect id; also of runs that are settled since."""
        ...

    async def publish(self, conversation_id: str, payload: bytes) -> None:
        """Tell live listeners; lossy, nothing is kept."""
        ...

    def listen(self, conversation_id: str) -> AsyncIterator[bytes]:
        """What is published while iterating."""
        ...
