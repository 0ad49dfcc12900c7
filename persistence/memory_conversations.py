"""Conversations in memory: what is kept of each, and the store's verbs for one conversation."""

import asyncio
import contextlib
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, product

from holdfast.backoff import wall_ms
from holdfast.cipher import Cipher, CipherAt
from holdfast.conversation import Event, State, Status, evolve
from holdfast.conversation.log.index import PendingEntry, facts, has_given, stopped_by
from holdfast.conversation.log.owed import AFTER_ALL, Envelope
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.conversation.terms.budget import Spent
from holdfast.conversation.terms.presence import LEAVES_MS, OnDetach
from holdfast.conversation.terms.spec import NoticeKind
from holdfast.errors import ConversationNotFound, CorruptStore, Fenced, LeaseHeld, Quarantined
from holdfast.settings import check_namespace

from . import pages
from .changes import CHANGES_KEPT, Change, Suspended
from .codec import Payloads
from .conversations import (
    MOST_PASSING,
    PASSING_MS,
    Acquired,
    Append,
    Appended,
    Blame,
    KnownIds,
    Moved,
    Owner,
    Quarantine,
    Takeover,
    TakeoverReason,
)
from .hashes import Put
from .keys import Keys, index_name
from .lists import PAGE_BYTES, Pause
from .memory_queues import Queues
from .pages import PendingPlace
from .reads import Reads
from .runs import Late, Run, RunStatus
from .views import naming

UNSTARTED_LEASES, UNSTARTED_MS = 10, 2_000
"""How many leases, and at least how many ms, an id is held under which nothing was started."""
Standing = tuple[str, Status, int]


@dataclass(frozen=True, slots=True)
class Client:
    """A client that was attached: present until `until` (ms UTC), and if `stays`, renewed by its own renewals."""

    record: bytes
    on_detach: OnDetach
    session: str
    until: int
    stays: bool = True


@dataclass(slots=True)
class Kept:
    """The log, snapshot, index entries, lease and other records of one conversation. Times in ms UTC."""

    token: str = ""
    epoch: int = 0
    actor: str = ""
    lease: int = 0
    append_id: str = ""
    at: int = 0
    log: list[bytes] = field(default_factory=list)
    snapshot: bytes = b""
    folded: int = 0
    after: State | None = None
    pending: dict[str, PendingEntry] = field(default_factory=dict)
    blame: Blame = field(default_factory=Blame)
    struck_by: frozenset[str] = frozenset()
    quarantine: tuple[bytes, int] | None = None
    known: dict[str, bytes] = field(default_factory=dict)
    passing: dict[str, bytes] = field(default_factory=dict)
    passing_until: int = 0
    runs: dict[str, Run] = field(default_factory=dict)
    late: dict[str, Late] = field(default_factory=dict)
    abandoned: dict[str, Run] = field(default_factory=dict)
    postponed: int = 0
    looked_at: int = 0
    paused: bool = False
    quarantine_owes: Sequence[str] = ()
    charged_to: str = ""
    due: int | None = None
    clients: dict[str, Client] = field(default_factory=dict)
    expires: int | None = None

    @property
    def listed(self) -> State | None:
        """The state behind its row in lists; None before the start."""
        return self.after if self.after is not None and self.after.seq else None

    @property
    def standing(self) -> Standing | None:
        """Its agent, status and number of open suspensions, as lists show them; None before the start."""
        return None if self.listed is None else (self.listed.agent, self.status, len(self.pending))

    def members(self, conversation_id: str) -> Iterator[tuple[str, str]]:
        """The names of the indexes of lists that hold it or its suspensions, each with a member."""
        if self.listed is None:
            return
        member, agent = pages.conversation_member(self.listed.created_at, conversation_id), self.listed.agent
        for of_agent, status in product((None, agent), (None, self.status.value)):
            yield index_name("conversations", of_agent, status), member
        if has_given(self.listed):
            yield "conversations:given", member
        if stopped_by(self.listed) is not None:
            yield "conversations:stopped", member
        yield from pages.pending_members(conversation_id, agent, self.pending.values())

    @property
    def busy(self) -> bool:
        """Whether any effect is outstanding."""
        return self.after is not None and self.after.busy

    @property
    def tail_bytes(self) -> int:
        """The size of the log after the last snapshot."""
        return sum(map(len, self.log[self.folded :]))

    @property
    def status(self) -> Status:
        """The status shown in lists."""
        if self.quarantine is not None:
            return Status.QUARANTINED
        return self.after.status if self.after is not None else Status.ABSENT

    @property
    def leaves(self) -> int | None:
        """When (ms UTC) the departure of a client has to be judged."""
        ends = [client.until for client in self.clients.values() if client.on_detach is OnDetach.CANCEL]
        return min(ends) + LEAVES_MS if ends else None

    @property
    def due_at(self) -> int | None:
        """When (ms UTC) something is due, or a departure has to be judged; None: nothing waits for a time."""
        return min((at for at in (self.due, self.leaves) if at is not None), default=None)

    @property
    def attention(self) -> int | None:
        """When (ms UTC) the conversation needs attention; None: not at all."""
        if self.quarantine is not None:
            return None
        moments = [self.lease if self.token else self.looked_at] if self.busy and not self.paused else []
        moments += [] if self.due_at is None else [self.due_at]
        return max(min(moments), self.postponed) if moments else None


def claimed(found: Kept, effect_id: str, incarnation: str) -> bool:
    """Whether this incarnation's claim of the work stands; without an incarnation, whether nobody has claimed it."""
    run = found.runs.get(effect_id)
    status = RunStatus.CLAIMED if incarnation else RunStatus.RUNNABLE
    return run is not None and run.status is status and incarnation in ("", run.incarnation)


class MemoryConversations(Reads):
    """The data of a store in this process, a `Kept` per conversation, and the verbs of `Conversations`.

    `clock` gives integer milliseconds UTC.
    """

    def __init__(
        self, *, namespace: str = "holdfast", clock: Callable[[], int] = wall_ms, cipher: Cipher | CipherAt | None = None
    ) -> None:
        self.namespace = check_namespace(namespace)
        self.url = "memory:"
        self._id = uuid.uuid4().hex
        self.store_id: str | None = self._id
        self.payloads = Payloads(self.namespace, lambda: self.store_id, cipher)
        self._clock = clock
        self._conversations: dict[str, Kept] = {}
        self._keys = Keys(self.namespace)
        self._hashes: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
        self._standby: dict[str, int] = {}
        self._living: dict[str, int] = {}
        self._pauses: dict[str, Pause] = {}
        self._tickets: dict[str, tuple[int, bytes]] = {}
        self._quotas_used: dict[str, tuple[int, dict[str, int], set[str]]] = {}
        self._spent: dict[tuple[str, int], Spent] = {}
        self._counts: dict[str, int] = {}
        self._attested: dict[str, int] = {}
        self._claims: dict[str, tuple[int, int]] = {}
        self._listeners: dict[str, list[asyncio.Queue[bytes]]] = {}
        self._outcome_listeners: list[asyncio.Queue[str]] = []
        self._owed = Queues()
        self._progress: dict[str, dict[str, bytes]] = {}
        self._kept_until: dict[str, int] = {}
        self._changed = asyncio.Condition()
        self._changes: deque[Change] = deque(maxlen=CHANGES_KEPT)  # all in one bucket

    async def open(self) -> str:
        return self._id

    async def identity(self) -> str:
        return self._id

    async def close(self) -> None:
        pass

    async def weaknesses(self) -> list[str]:
        return ["it is in memory: it ends with this process"]

    async def now(self) -> int:
        return self._clock()

    async def _get(self, *places: tuple[str, str]) -> Sequence[bytes | None]:
        return [self._hashes[key].get(name) for key, name in places]

    async def _all(self, *keys: str) -> Sequence[Mapping[str, bytes]]:
        return [dict(self._hashes[key]) for key in keys]

    async def _put(self, *puts: Put, new: Sequence[Put] = ()) -> bool:
        absent = [name not in self._hashes[key] for key, name, _ in new]
        for key, name, value in (*puts, *(one for one, fresh in zip(new, absent, strict=True) if fresh)):
            self._hashes[key][name] = value if isinstance(value, bytes) else str(value).encode()
        return absent[-1:] == [True]

    async def _drop(self, *places: tuple[str, str]) -> bool:
        first, *_ = [self._hashes[key].pop(name, None) for key, name in places]
        return first is not None

    async def _awaited(self, ready: Callable[[], bool], block_ms: int) -> None:
        async with self._changed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(block_ms / 1000):
                    await self._changed.wait_for(ready)

    def _unexpired(self, conversation_id: str) -> Kept | None:
        found = self._conversations.get(conversation_id)
        if found is not None and found.expires is not None and found.expires <= self._clock():
            del self._conversations[conversation_id]
            return None
        return found

    @property
    def due(self) -> Mapping[str, int]:
        """When (ms UTC) something is due for each conversation in which anything waits for a time, work left out."""
        return {name: found.due_at for name, found in self._conversations.items() if found.due_at is not None}

    def _seen(self, conversation_id: str) -> Kept:
        return self._conversations.get(conversation_id) or Kept()

    def _runs(self, conversation_id: str) -> dict[str, Run]:
        return self._seen(conversation_id).runs

    def _opened_runs(self, conversation_id: str) -> dict[str, Run]:
        return {
            name: replace(run, outcome=self.payloads.open_outcome(conversation_id, name, run.outcome)) if run.outcome else run
            for name, run in self._runs(conversation_id).items()
        }

    def _state(self, conversation_id: str, found: Kept) -> State:
        state = self.payloads.open_state(conversation_id, found.snapshot)
        for data in found.log[state.seq :]:
            state = evolve(state, self.payloads.open_event(conversation_id, state.seq + 1, data))
        return state

    async def owner(self, conversation_id: str) -> Owner | None:
        found = self._unexpired(conversation_id)
        if found is None or not (found.log or found.token):
            return None
        quarantine = await self.quarantine(conversation_id)
        return Owner(found.token, found.epoch, found.actor, started=bool(found.log), quarantine=quarantine)

    async def acquire(self, conversation_id: str, takeover: Takeover) -> Acquired | Moved:
        check(bool(takeover.new_token), "arguments")
        found = self._unexpired(conversation_id)
        if (found is None or not found.log) and not takeover.create:
            raise ConversationNotFound(conversation_id)
        quarantine = await self.quarantine(conversation_id)
        if quarantine is not None:
            raise Quarantined(conversation_id, quarantine.reason, quarantine.at)
        found = self._conversations.setdefault(conversation_id, found or Kept())
        now = self._clock()
        state, runs = self._state(conversation_id, found), self._opened_runs(conversation_id)
        if found.token != takeover.new_token:
            if found.token != takeover.seen_token:
                return Moved(Owner(found.token, found.epoch, found.actor))
            if found.token and found.busy and takeover.because is TakeoverReason.ASKED and found.lease > now:
                raise LeaseHeld(conversation_id, found.lease - now)
            found.token, found.actor, found.epoch = takeover.new_token, takeover.actor, found.epoch + 1
            found.lease = now + takeover.lease_ms
            found.expires = None if found.log else now + max(UNSTARTED_LEASES * takeover.lease_ms, UNSTARTED_MS)
            found.postponed, found.paused = 0, False
        return Acquired(found.epoch, now, state, runs, found.blame, found.tail_bytes)

    async def append(self, conversation_id: str, write: Append) -> Appended | KnownIds:
        check(bool(write.token) != (write.seen is not None) and bool(write.append_id), "arguments: an empty token or append id")
        found = self._unexpired(conversation_id) or Kept()
        now = self._clock()
        away = found.token or found.quarantine is not None or found.paused or found.append_id != write.seen
        away = away or (write.claim is not None and not claimed(found, *write.claim))
        if (found.append_id != write.append_id and away) if write.seen is not None else found.token != write.token:
            raise Fenced(conversation_id)
        if found.append_id == write.append_id:
            return Appended(now, found.tail_bytes)
        check(len(found.log) == write.before.seq, f"the head is at {len(found.log)}, the writer at {write.before.seq}")
        known = await self.known(conversation_id, write.absent)
        if known or (write.until_ms is not None and now >= write.until_ms):
            return KnownIds(now, known)
        if write.seen is not None and not found.log and not write.events:  # a start that was refused leaves nothing
            return Appended(now)
        first = write.before.seq + 1
        entries = [self.payloads.seal_event(conversation_id, seq, event) for seq, event in enumerate(write.events, first)]
        tail_bytes = write.tail_bytes + sum(map(len, entries))
        fresh = write.snapshot(tail_bytes)
        snapshot = self.payloads.seal_state(conversation_id, write.after) if fresh else found.snapshot
        facts_known, passing = (
            {key: self.payloads.seal_known(conversation_id, key, value) for key, value in records.items()}
            for records in (facts(write.events, first), write.passing)
        )
        # All is checked and encoded: write.
        if self.payloads.cipher is not None:
            await self._note_encryption()
        found.postponed = 0
        if write.seen is not None:
            self._conversations[conversation_id] = found
            found.epoch, look = found.epoch + 1, now + write.lease_ms
            found.looked_at = min(look, found.looked_at) if found.busy else look
        if write.events:
            found.expires = None
        stood = found.standing
        found.append_id, found.lease, found.snapshot = write.append_id, now + write.lease_ms, snapshot
        found.folded = write.after.seq if fresh else found.folded
        found.after, found.quarantine_owes, found.due = write.after, write.quarantine_owes, write.due
        for entry in write.delta.closed:
            found.pending.pop(entry.suspension_id, None)
        found.pending |= {entry.suspension_id: entry for entry in write.delta.opened}
        if write.events:
            found.at = now
        if write.advances:
            found.blame, found.struck_by = Blame(), frozenset()
        found.log.extend(entries)
        found.known |= facts_known
        if passing:
            found.passing = dict(list((self._passing(found) | passing).items())[-MOST_PASSING:])
            found.passing_until = now + PASSING_MS
        found.runs |= {effect_id: Run(RunStatus.RUNNABLE) for effect_id in (*write.delta.scheduled, *write.unrecorded)}
        gone = {effect_id: found.runs.pop(effect_id, None) for effect_id in write.delta.settled}
        removed = {name: run for name, run in gone.items() if run is not None and run.status is RunStatus.CLAIMED}
        # The run whose outcome this is has ended.
        found.abandoned |= {name: run for name, run in removed.items() if "#" in name and name not in (write.claim or ())}
        self._account(conversation_id, write, now)
        sides = {"opened": write.delta.opened, "closed": write.delta.closed, "noted": write.delta.noted}
        await self._note_change(conversation_id, found, stood, first=first, **sides)
        return Appended(now, 0 if fresh else tail_bytes, removed)

    def _account(self, conversation_id: str, write: Append, now: int) -> None:
        """Count what the events have spent, and keep what they owe."""
        if write.spent is not None:
            place = write.after.agent, write.spent.day
            self._spent[place] = write.spent.spent + self._spent.get(place, Spent())
        if write.owed:
            self._owed.owe(conversation_id, write.owed, now)

    async def renew(self, conversation_id: str, token: str, lease_ms: int) -> int:
        found = self._owned(conversation_id, token)
        found.lease, found.postponed = self._clock() + lease_ms, 0
        return self._clock()

    async def release(self, conversation_id: str, token: str, *, paused: bool = False, look_ms: int = 0) -> None:
        check(bool(token), "arguments")
        found = self._seen(conversation_id)
        if found.token != token:
            return
        if not found.log:
            del self._conversations[conversation_id]
            return
        now = self._clock()
        found.token, found.actor, found.lease, found.postponed = "", "", now, 0
        found.paused = paused and found.busy
        done = any(run.status is RunStatus.DONE for run in found.runs.values())
        found.looked_at = now if done else now + look_ms
        if done and found.busy and not found.paused:
            self._look_now(conversation_id, found)

    def _look_now(self, conversation_id: str, found: Kept) -> None:
        found.postponed, found.looked_at = 0, min(found.looked_at, self._clock())
        for queue in self._outcome_listeners:
            queue.put_nowait(conversation_id)

    async def look(self, conversation_id: str, look_ms: int) -> Sequence[Run]:
        found = self._seen(conversation_id)
        if found.token or not found.busy or found.quarantine is not None or found.paused:
            return []
        now = self._clock()
        claims = [run for run in found.runs.values() if run.status is RunStatus.CLAIMED and run.until > now]
        if not claims or len(claims) < len(found.runs) or (found.due_at is not None and found.due_at <= now):
            return []
        found.postponed, found.looked_at = 0, min(now + look_ms, *(run.until for run in claims))
        return claims

    async def strike(
        self, conversation_id: str, token: str, *, process: str, reason: str, limit: int, claims: int = 1
    ) -> Blame | None:
        check(bool(process) and "," not in process and limit > 0, "arguments")
        found = self._seen(conversation_id)
        if not found.log or found.token != token or found.quarantine is not None:
            raise Fenced(conversation_id)
        if process not in found.struck_by:
            found.struck_by |= {process}
            found.blame = found.blame.after(claims)
        if found.blame.crash_count < limit:
            return found.blame
        stood = found.standing
        found.quarantine = self.payloads.seal_text(reason, "quarantine", conversation_id), self._clock()
        found.token, found.actor, found.lease = "", "", self._clock()
        owed = [Envelope(NoticeKind.QUARANTINED, target, len(found.log), AFTER_ALL, 0) for target in found.quarantine_owes]
        self._owed.owe(conversation_id, owed, self._clock())
        await self._note_change(conversation_id, found, stood, first=len(found.log) + 1)
        return None

    async def retry(self, conversation_id: str) -> bool:
        found = self._seen(conversation_id)
        if found.quarantine is None:
            return False
        stood = found.standing
        found.quarantine, found.blame, found.looked_at, found.postponed = None, Blame(), self._clock(), 0
        found.paused = False
        await self._note_change(conversation_id, found, stood, first=len(found.log) + 1)
        return True

    async def quarantine(self, conversation_id: str) -> Quarantine | None:
        found = self._seen(conversation_id)
        if found.quarantine is None:
            return None
        reason, at = found.quarantine
        return Quarantine(self.payloads.open_text(reason, "quarantine", conversation_id), at)

    async def known(self, conversation_id: str, keys: Sequence[str]) -> Mapping[str, IdempotencyRecord]:
        found = self._seen(conversation_id)
        known = found.known | self._passing(found)
        return {key: self.payloads.open_known(conversation_id, key, known[key]) for key in keys if key in known}

    async def load(self, conversation_id: str) -> State:
        found = self._seen(conversation_id)
        if not found.log:
            raise ConversationNotFound(conversation_id)
        with naming(conversation_id):
            return self._state(conversation_id, found)

    async def read(
        self, conversation_id: str, *, after: int = 0, before: int = 0, limit: int = 500, block_ms: int = 0, whole: bool = False
    ) -> Sequence[tuple[int, Event]]:
        def seqs() -> range:
            length = len(self._seen(conversation_id).log)
            return (range(min(before - 1, length), 0, -1) if before else range(after + 1, length + 1))[:limit]

        if block_ms and not seqs():
            await self._awaited(lambda: bool(seqs()), block_ms)
        page, log = seqs(), self._seen(conversation_id).log
        if not (block_ms or whole):
            weights = accumulate(len(log[seq - 1]) for seq in page)
            page = page[: max(sum(weight <= PAGE_BYTES for weight in weights), 1)]
        with naming(conversation_id):
            return [(seq, self.payloads.open_event(conversation_id, seq, log[seq - 1])) for seq in sorted(page)]

    async def _note_change(
        self, conversation_id: str, found: Kept, stood: Standing | None, *, first: int, **sides: Sequence[PendingEntry]
    ) -> None:
        """Note that a log has grown from `first` on; `sides` are the suspensions that it has `opened`, `closed` and `noted`."""

        def changed(side: str) -> tuple[Suspended, ...]:
            places = ((one.kind, (one.seq, one.suspension_id, one.created_at)) for one in sides.get(side, ()))
            return tuple(Suspended(kind, PendingPlace(conversation_id, *place)) for kind, place in places)

        stands = found.standing
        if stands is not None and (stands != stood or any(sides.values())):
            now, last = self._clock(), self._changes[-1].id if self._changes else (0, -1)
            id_ = (now, 0) if now > last[0] else (last[0], last[1] + 1)
            come, gone, said = map(changed, ("opened", "closed", "noted"))
            self._changes.append(Change(0, id_, conversation_id, first, len(found.log), *stands, come, gone, said))
        async with self._changed:
            self._changed.notify_all()

    def _passing(self, found: Kept) -> dict[str, bytes]:
        return found.passing if self._clock() < found.passing_until else {}

    def _owned(self, conversation_id: str, token: str) -> Kept:
        check(bool(token), "arguments")
        found = self._unexpired(conversation_id)
        if found is None or found.token != token:
            raise Fenced(conversation_id)
        return found


def check(fine: bool, what: str) -> None:  # noqa: FBT001 - the condition itself
    """Raise `CorruptStore` if the condition is false."""
    if not fine:
        raise CorruptStore(what)
