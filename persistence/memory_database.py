"""The data of a store in memory, and access to it."""

import asyncio
import contextlib
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from holdfast.cipher import Cipher, CipherAt
from holdfast.conversation import State, Status, evolve
from holdfast.conversation.log.index import PendingEntry, has_given
from holdfast.conversation.records.idempotency import notes_key
from holdfast.errors import CorruptStore, StoreError
from holdfast.settings import check_namespace

from . import pages
from .changes import Change
from .conversations import Blame
from .hashes import Put
from .keys import Keys
from .lists import ConversationRow, Pause
from .pages import PendingPlace
from .payloads import Payloads
from .reads import Reads
from .runs import Late, Run
from .views import Entry, naming

Standing = tuple[str, Status, int]


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
    charged_to: str = ""
    expires: int | None = None

    @property
    def listed(self) -> State | None:
        """The state behind its row in lists; None before the start."""
        return self.after if self.after is not None and self.after.seq else None

    @property
    def standing(self) -> Standing | None:
        """Its agent, status and number of open suspensions, as lists show them; None before the start."""
        return None if self.listed is None else (self.listed.agent, self.status, len(self.pending))

    def members(self, index: str, conversation_id: str, other: str | None) -> list[str]:
        """Its members of an index of lists, of all or of one kind of suspension or status."""
        if self.listed is None:
            return []
        if index == "pending":  # each append's delta opens and closes suspensions, as in Redis
            return [pages.pending_member(conversation_id, one) for one in self.pending.values() if other in (None, one.kind)]
        wanted = has_given(self.listed) if index == "given" else other in (None, self.status)
        return [pages.conversation_member(self.listed.created_at, conversation_id)] if wanted else []

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
    def attention(self) -> int | None:
        """When (ms UTC) the conversation needs attention; None: not at all."""
        if self.quarantine is not None:
            return None
        moments = [self.lease if self.token else self.looked_at] if self.busy and not self.paused else []
        due = self.after.due_at if self.after is not None else None
        if due is not None:
            moments.append(due)
        return max(min(moments), self.postponed) if moments else None


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


class MemoryDatabase(Reads):
    """The data of a store in this process, a `Kept` per conversation. `clock` gives integer milliseconds UTC."""

    def __init__(
        self, *, namespace: str = "holdfast", clock: Callable[[], int] = _wall_clock, cipher: Cipher | CipherAt | None = None
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
        self._counts: dict[str, int] = {}
        self._attested: dict[str, int] = {}
        self._claims: dict[str, tuple[int, int]] = {}
        self._listeners: dict[str, list[asyncio.Queue[bytes]]] = {}
        self._outcome_listeners: list[asyncio.Queue[str]] = []
        self._progress: dict[str, dict[str, bytes]] = {}
        self._kept_until: dict[str, int] = {}
        self._changed = asyncio.Condition()
        self._changes: dict[int, deque[Change]] = {}

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

    async def _rows(self, places: Sequence[tuple[int, str]]) -> list[ConversationRow]:
        return [self._row(*place) for place in places]

    def _row(self, created_at: int, conversation_id: str) -> ConversationRow:
        found = self._seen(conversation_id)
        agent = "" if found.listed is None else found.listed.agent
        return ConversationRow(conversation_id, agent, found.status, created_at, found.at, len(found.pending))

    async def _entries(self, places: Sequence[tuple[str, int]]) -> list[Entry]:
        return [self._entry(*place) for place in places]

    async def _within(self, places: Sequence[tuple[str, int]], most: int, least: int) -> tuple[list[Entry], int]:
        logs = [(self._seen(name).log, seq) for name, seq in places]
        sums = list(accumulate(len(log[seq - 1]) if 1 <= seq <= len(log) else 0 for log, seq in logs))
        count = max(least, sum(size <= most for size in sums))
        return await self._entries(places[:count]), sums[count - 1]

    async def _last_notes(self, places: Sequence[PendingPlace]) -> list[int]:
        known = [self._seen(place.conversation_id).known.get(notes_key(place.suspension_id)) for place in places]
        return [0 if data is None else self._noted_at(place, data) for place, data in zip(places, known, strict=True)]

    async def _page(
        self, index: str, limit: int, after: str, agent: str | None = None, other: str | None = None
    ) -> tuple[list[str], bool]:
        pages.check_limit(limit)
        found = sorted(
            member
            for conversation_id, kept in self._conversations.items()
            if kept.listed is not None and agent in (None, kept.listed.agent)
            for member in kept.members(index, conversation_id, other)
            if member > after
        )
        return found[:limit], len(found) > limit

    def _entry(self, conversation_id: str, seq: int) -> Entry:
        log = self._seen(conversation_id).log
        try:
            with naming(conversation_id):
                return self.payloads.open_event(conversation_id, seq, log[seq - 1]) if 1 <= seq <= len(log) else None
        except StoreError as error:
            return error


def check(fine: bool, what: str) -> None:  # noqa: FBT001 - the condition itself
    """Raise `CorruptStore` if the condition is false."""
    if not fine:
        raise CorruptStore(what)
