"""The store in memory: for unit tests. It passes the same conformance suite as `RedisStore`, with the same codec."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace

from holdfast.cipher import Cipher, CipherAt
from holdfast.conversation import AgentSpec, Event, State, Status, SuspensionKind, evolve
from holdfast.conversation.calls import PendingView
from holdfast.conversation.events import CallSuspended
from holdfast.conversation.idempotency import facts
from holdfast.conversation.index import index
from holdfast.errors import ConversationNotFound, Fenced, LeaseHeld, Quarantined, StoreError
from holdfast.settings import check_namespace

from . import codec, pages
from .keys import BUCKETS, bucket_of
from .memory_cluster import MemoryCluster
from .memory_conversation import MemoryConversation as _Conversation
from .memory_inspection import MemoryInspection
from .memory_live import MemoryLive
from .memory_pausing import MemoryPausing
from .memory_supervision import MemorySupervision, check
from .pages import PendingPlace
from .pausing import Pause
from .payloads import Payloads
from .store import (
    Acquired,
    Append,
    Appended,
    AppRecord,
    ConversationRow,
    Due,
    KnownIds,
    Late,
    Listing,
    Moved,
    Owner,
    Rebuilt,
    Run,
    RunStatus,
    TakeoverReason,
)
from .views import Entry, naming, pending_view, raised

UNSTARTED_LEASES, UNSTARTED_MS = 10, 2_000
"""For how many leases an id is held under which nothing was started, and for how long at least."""


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


class MemoryStore(MemorySupervision, MemoryPausing, MemoryInspection, MemoryCluster, MemoryLive):
    """Conversations in this process's memory."""

    def __init__(
        self,
        *,
        namespace: str = "holdfast",
        clock: Callable[[], int] = _wall_clock,
        cipher: Cipher | CipherAt | None = None,
    ) -> None:
        self.namespace = check_namespace(namespace)
        self.store_id = uuid.uuid4().hex
        self.payloads = Payloads(self.namespace, lambda: self.store_id, cipher)
        MemoryCluster.__init__(self, clock)
        MemoryLive.__init__(self, clock, self._runs, self.payloads)
        self._conversations: dict[str, _Conversation] = {}
        self._apps: dict[str, bytes] = {}
        self._specs: dict[str, bytes] = {}
        self._problems: dict[str, bytes] = {}
        self._problems_since: dict[str, int] = {}
        self._standby: dict[str, int] = {}
        self._living: dict[str, int] = {}
        self._generations: dict[str, int] = {}
        self._hosting: dict[str, str] = {}
        self._troubles: dict[str, tuple[int, int, bytes]] = {}
        self._pauses: dict[str, Pause] = {}
        self._encrypted = False
        self._changed = asyncio.Condition()

    async def open(self) -> str:
        """See `Store.open`."""
        return self.store_id

    async def identity(self) -> str:
        """See `Store.identity`."""
        return self.store_id

    async def close(self) -> None:
        """See `Store.close`."""

    async def weaknesses(self) -> list[str]:
        """See `Store.weaknesses`."""
        return ["it is in memory: it ends with this process"]

    async def encrypted(self) -> bool:
        """See `Store.encrypted`."""
        return self._encrypted

    async def now(self) -> int:
        """See `Store.now`."""
        return self._clock()

    async def owner(self, conversation_id: str) -> Owner | None:
        """See `Store.owner`."""
        found = self._unexpired(conversation_id)
        if found is None or not (found.log or found.token):
            return None
        quarantine = await self.quarantine(conversation_id)
        return Owner(found.token, found.epoch, found.holder, started=bool(found.log), quarantine=quarantine)

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
        """See `Store.acquire`."""
        check(bool(new_token), "arguments")
        found = self._unexpired(conversation_id)
        if (found is None or not found.log) and not create:
            raise ConversationNotFound(conversation_id)
        quarantine = await self.quarantine(conversation_id)
        if quarantine is not None:
            raise Quarantined(conversation_id, quarantine.reason, quarantine.at)
        found = self._conversations.setdefault(conversation_id, found or _Conversation())
        now = self._clock()
        state, runs = self._state(conversation_id, found), self._opened_runs(conversation_id)
        if found.token != new_token:
            if found.token != seen_token:
                return Moved(Owner(found.token, found.epoch, found.holder))
            if found.token and found.busy and because is TakeoverReason.ASKED and found.lease > now:
                raise LeaseHeld(conversation_id, found.lease - now)
            found.token, found.holder, found.epoch, found.lease = new_token, holder, found.epoch + 1, now + lease_ms
            found.expires = None if found.log else now + max(UNSTARTED_LEASES * lease_ms, UNSTARTED_MS)
            found.postponed, found.paused = 0, False
        return Acquired(found.epoch, now, state, runs, found.crash_count, found.tail_bytes)

    async def append(self, conversation_id: str, write: Append) -> Appended | KnownIds:
        """See `Store.append`."""
        check(bool(write.token and write.append_id), "arguments: an empty token or append id")
        found = self._unexpired(conversation_id) or _Conversation()
        now = self._clock()
        if found.token != write.token:
            raise Fenced(conversation_id)
        if found.append_id == write.append_id:
            return Appended(now, found.tail_bytes)
        check(len(found.log) == write.before.seq, f"the head is at {len(found.log)}, the writer at {write.before.seq}")
        known = await self.known(conversation_id, write.absent)
        if known:
            return KnownIds(now, known)
        first = write.before.seq + 1
        entries = [self.payloads.seal_event(conversation_id, seq, event) for seq, event in enumerate(write.events, first)]
        tail_bytes = write.tail_bytes + sum(map(len, entries))
        fresh = write.snapshot(tail_bytes)
        snapshot = self.payloads.seal_state(conversation_id, write.after) if fresh else found.snapshot
        changes = write.delta
        facts_known = {
            key: self.payloads.seal_known(conversation_id, key, value) for key, value in facts(write.events, first).items()
        }
        # Everything is checked and encoded: write.
        self._encrypted = self._encrypted or self.payloads.cipher is not None
        found.postponed = 0
        if write.events:
            found.expires = None
        found.append_id, found.lease, found.snapshot = write.append_id, now + write.lease_ms, snapshot
        found.folded = write.after.seq if fresh else found.folded
        found.after = write.after
        for entry in changes.closed:
            found.pending.pop(entry.suspension_id, None)
        found.pending |= {entry.suspension_id: entry for entry in changes.opened}
        if write.events:
            found.at = now
        if write.advances:
            found.crash_count, found.struck_by = 0, frozenset()
        found.log.extend(entries)
        found.known |= facts_known
        found.runs |= {effect_id: Run(RunStatus.RUNNABLE) for effect_id in changes.scheduled}
        for effect_id in changes.settled:
            found.runs.pop(effect_id, None)
        async with self._changed:
            self._changed.notify_all()
        return Appended(now, 0 if fresh else tail_bytes)

    async def renew(self, conversation_id: str, token: str, lease_ms: int) -> int:
        """See `Store.renew`."""
        found = self._owned(conversation_id, token)
        found.lease, found.postponed = self._clock() + lease_ms, 0
        return self._clock()

    async def release(self, conversation_id: str, token: str, *, paused: bool = False) -> None:
        """See `Store.release`."""
        check(bool(token), "arguments")
        found = self._conversations.get(conversation_id)
        if found is None or found.token != token:
            return
        if not found.log:
            del self._conversations[conversation_id]
            return
        found.token, found.holder, found.lease, found.postponed = "", "", self._clock(), 0
        found.paused = paused and found.busy

    async def claim(
        self, conversation_id: str, effect_id: str, *, incarnation: str, worker: str, until: int | None = None
    ) -> bool:
        """See `Store.claim`."""
        check(bool(effect_id and incarnation) and "|" not in incarnation, "arguments")
        runs = self._runs(conversation_id)
        claimed = Run(RunStatus.CLAIMED, incarnation=incarnation, worker=worker)
        match runs.get(effect_id):
            case Run(RunStatus.RUNNABLE):
                if until is not None and self._clock() > until:
                    return False
                runs[effect_id] = claimed
                return True
            case run:
                return run == claimed

    async def finish(self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes) -> bool:
        """See `Store.finish`."""
        check(bool(effect_id and incarnation) and "|" not in incarnation, "arguments")
        runs = self._runs(conversation_id)
        run = runs.get(effect_id)
        outcome = self.payloads.seal_outcome(conversation_id, effect_id, outcome)
        found = self._conversations.get(conversation_id)
        if run is None and found is not None and found.log:
            found.late[effect_id] = Late(self._clock(), outcome)
        if run is None or run.status is RunStatus.RUNNABLE or run.incarnation != incarnation:
            return False
        if run.status is RunStatus.CLAIMED:
            runs[effect_id] = Run(RunStatus.DONE, incarnation=incarnation, outcome=outcome)
        return True

    async def late(self, conversation_id: str) -> Mapping[str, Late]:
        """See `Store.late`."""
        found = self._conversations.get(conversation_id)
        late = found.late if found is not None else {}
        return {
            name: replace(one, outcome=self.payloads.open_late_outcome(conversation_id, name, one.outcome))
            for name, one in late.items()
        }

    async def run(self, conversation_id: str, effect_id: str) -> Run | None:
        """See `Store.run`."""
        return self._opened_runs(conversation_id).get(effect_id)

    async def load(self, conversation_id: str) -> State:
        """See `Store.load`."""
        found = self._conversations.get(conversation_id)
        if found is None or not found.log:
            raise ConversationNotFound(conversation_id)
        with naming(conversation_id):
            return self._state(conversation_id, found)

    async def read(
        self, conversation_id: str, *, after: int, limit: int = 500, block_ms: int = 0
    ) -> Sequence[tuple[int, Event]]:
        """See `Store.read`."""

        def entries() -> list[bytes]:
            return self._conversations.get(conversation_id, _Conversation()).log[after : after + limit]

        if block_ms and not entries():
            async with self._changed:
                try:
                    async with asyncio.timeout(block_ms / 1000):
                        await self._changed.wait_for(lambda: bool(entries()))
                except TimeoutError:
                    return []
        with naming(conversation_id):
            return [
                (seq, self.payloads.open_event(conversation_id, seq, data)) for seq, data in enumerate(entries(), after + 1)
            ]

    async def at(self, conversation_id: str, seqs: Sequence[int]) -> Sequence[Event | None]:
        """See `Store.at`."""
        return raised([self._entry(conversation_id, seq) for seq in seqs])

    async def pending(
        self, *, limit: int, after: str | None = None, agent: str | None = None, kind: SuspensionKind | None = None
    ) -> Listing:
        """See `Store.pending`."""
        members = sorted(
            f"{entry.created_at:015d}|{entry.suspension_id}|{conversation_id}|{entry.seq}"
            for conversation_id, found in self._conversations.items()
            if found.index is not None and agent in (None, found.index.agent)
            for entry in found.index.pending
            if kind in (None, entry.kind)
        )
        page, following = _page(members, limit, pages.pending_after(after))
        places = [pages.pending_place(member) for member in page]
        return Listing([self._view(place) for place in places if place is not None], following)

    async def pending_of(self, conversation_id: str) -> Sequence[PendingView]:
        """See `Store.pending_of`."""
        state = await self.load(conversation_id)
        open_ones = [call.suspension for call in state.calls if call.suspension is not None]
        return [self._view(PendingPlace(conversation_id, one.seq, one.suspension_id, one.created_at)) for one in open_ones]

    async def conversations(
        self, *, limit: int, after: str | None = None, agent: str | None = None, status: Status | None = None
    ) -> Listing:
        """See `Store.conversations`."""
        rows = {
            f"{found.index.created_at:015d}|{conversation_id}": ConversationRow(
                conversation_id,
                found.index.agent,
                found.status,
                found.index.created_at,
                found.at,
                len(found.index.pending),
            )
            for conversation_id, found in self._conversations.items()
            if found.index is not None and agent in (None, found.index.agent) and status in (None, found.status)
        }
        page, following = _page(sorted(rows), limit, pages.conversations_after(after))
        return Listing([rows[member] for member in page], following)

    async def attention(self, limit: int) -> Due:
        """See `Store.attention`."""
        now = self._clock()
        due = [(found.attention, name) for name, found in self._conversations.items() if found.attention is not None]
        return Due(now, [name for at, name in sorted(due) if at <= now][:limit])

    async def reindex(self) -> AsyncIterator[Rebuilt]:
        """See `Store.reindex`."""
        for bucket in range(BUCKETS):
            mine = [name for name, found in self._conversations.items() if found.log and bucket_of(name) == bucket]
            for conversation_id in mine:
                found = self._conversations[conversation_id]
                found.after = self._state(conversation_id, found)
                found.pending = {entry.suspension_id: entry for entry in index(found.after).pending}
            yield Rebuilt(bucket, len(mine), 0, [])

    async def put_app(self, record: AppRecord, specs: Sequence[AgentSpec]) -> None:
        """See `Store.put_app`."""
        self._specs |= {spec.digest: self.payloads.seal_spec(spec) for spec in specs}
        self._apps[record.app] = codec.encode_app(record)
        self._encrypted = self._encrypted or self.payloads.cipher is not None

    async def app(self, path: str) -> AppRecord | None:
        """See `Store.app`."""
        data = self._apps.get(path)
        return codec.decode_app(data) if data is not None else None

    async def spec(self, digest: str) -> AgentSpec | None:
        """See `Store.spec`."""
        data = self._specs.get(digest)
        return self.payloads.open_spec(digest, data) if data is not None else None

    async def put_problem(self, path: str, problem: str | None) -> None:
        """See `Store.put_problem`."""
        since = self._problems_since.pop(path, self._clock())
        self._problems.pop(path, None)
        if problem is not None:
            self._problems[path] = self.payloads.seal_text(problem, "problem", path)
            self._problems_since[path] = since

    async def problem(self, path: str) -> str | None:
        """See `Store.problem`."""
        text = self._problems.get(path)
        return self.payloads.open_text(text, "problem", path) if text is not None else None

    async def offer(self, actor: str, since: int) -> None:
        """See `Store.offer`."""
        self._standby[actor] = since

    async def withdraw(self, actor: str) -> bool:
        """See `Store.withdraw`."""
        return self._standby.pop(actor, None) is not None

    async def take(self) -> str | None:
        """See `Store.take`."""
        actor = min(self._standby, key=lambda name: (self._standby[name], name), default=None)
        if actor is not None:
            del self._standby[actor]
        return actor

    async def offers(self) -> int:
        """See `Store.offers`."""
        return len(self._standby)

    async def heartbeat(self, actor: str, *, limit: int) -> bool:
        """See `Store.heartbeat`."""
        if actor not in self._living and len(self._living) >= limit:
            return False
        self._living[actor] = self._clock()
        return True

    async def deregister(self, actor: str) -> None:
        """See `Store.deregister`."""
        self._living.pop(actor, None)
        self._hosting.pop(actor, None)

    async def live(self, *, quiet_ms: int = 0) -> Sequence[str]:
        """See `Store.live`."""
        quiet = [(at, name) for name, at in self._living.items() if at <= self._clock() - quiet_ms]
        return [name for _, name in sorted(quiet)]

    async def generation(self, worker: str) -> int:
        """See `Store.generation`."""
        return self._generations.get(worker, 0)

    async def succeed(self, worker: str, generation: int) -> None:
        """See `Store.succeed`."""
        self._generations[worker] = generation

    def _unexpired(self, conversation_id: str) -> _Conversation | None:
        found = self._conversations.get(conversation_id)
        if found is not None and found.expires is not None and found.expires <= self._clock():
            del self._conversations[conversation_id]
            return None
        return found

    def _owned(self, conversation_id: str, token: str) -> _Conversation:
        check(bool(token), "arguments")
        found = self._unexpired(conversation_id)
        if found is None or found.token != token:
            raise Fenced(conversation_id)
        return found

    def _runs(self, conversation_id: str) -> dict[str, Run]:
        found = self._conversations.get(conversation_id)
        return found.runs if found is not None else {}

    def _opened_runs(self, conversation_id: str) -> dict[str, Run]:
        return {
            name: replace(run, outcome=self.payloads.open_outcome(conversation_id, name, run.outcome)) if run.outcome else run
            for name, run in self._runs(conversation_id).items()
        }

    def _state(self, conversation_id: str, found: _Conversation) -> State:
        state = self.payloads.open_state(conversation_id, found.snapshot)
        for data in found.log[state.seq :]:
            state = evolve(state, self.payloads.open_event(conversation_id, state.seq + 1, data))
        return state

    def _entry(self, conversation_id: str, seq: int) -> Entry:
        log = self._conversations.get(conversation_id, _Conversation()).log
        try:
            with naming(conversation_id):
                return self.payloads.open_event(conversation_id, seq, log[seq - 1]) if 1 <= seq <= len(log) else None
        except StoreError as error:
            return error

    def _view(self, place: PendingPlace) -> PendingView:
        entry = self._entry(place.conversation_id, place.seq)
        source = self._entry(place.conversation_id, entry.arguments_at) if isinstance(entry, CallSuspended) else None
        found = self._conversations[place.conversation_id].index
        return pending_view(place, found.agent if found is not None else "", entry, source)


def _page(members: Sequence[str], limit: int, after: str) -> tuple[list[str], str | None]:
    pages.check_limit(limit)
    left = [member for member in members if member > after]
    page = left[:limit]
    return page, pages.cursor_of(page[-1]) if len(left) > limit else None
