"""The data of a store in memory, and access to it."""

import asyncio
import contextlib
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from holdfast.cipher import Cipher, CipherAt
from holdfast.conversation import State, evolve
from holdfast.conversation.records.calls import PendingView
from holdfast.conversation.records.events import CallSuspended
from holdfast.conversation.records.idempotency import notes_key
from holdfast.errors import CorruptStore, StoreError
from holdfast.settings import check_namespace

from . import noted
from .changes import Change
from .lists import PAGE_BYTES
from .memory_kept import Kept
from .pages import PendingPlace
from .pausing import Pause
from .payloads import Payloads
from .runs import Run
from .views import Entry, naming, pending_view


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


class MemoryDatabase:
    """The data of a store in this process, a `Kept` per conversation. `clock` gives integer milliseconds UTC."""

    def __init__(
        self,
        *,
        namespace: str = "holdfast",
        clock: Callable[[], int] = _wall_clock,
        cipher: Cipher | CipherAt | None = None,
    ) -> None:
        self.namespace = check_namespace(namespace)
        self.url = "memory:"
        self._id = uuid.uuid4().hex
        self.store_id: str | None = self._id
        self.payloads = Payloads(self.namespace, lambda: self.store_id, cipher)
        self._clock = clock
        self._conversations: dict[str, Kept] = {}
        self._apps: dict[str, bytes] = {}
        self._specs: dict[str, bytes] = {}
        self._rules: dict[str, bytes] = {}
        self._problems: dict[str, bytes] = {}
        self._problems_since: dict[str, int] = {}
        self._standby: dict[str, int] = {}
        self._living: dict[str, int] = {}
        self._generations: dict[str, int] = {}
        self._hosting: dict[str, str] = {}
        self._troubles: dict[str, tuple[int, int, bytes]] = {}
        self._pauses: dict[str, Pause] = {}
        self._api_keys: dict[str, bytes] = {}
        self._api_keys_used: dict[str, int] = {}
        self._tickets: dict[str, tuple[int, bytes]] = {}
        self._quotas_used: dict[str, tuple[int, dict[str, int], set[str]]] = {}
        self._counts: dict[str, int] = {}
        self._encrypted = False
        self._binding: tuple[str, str, int] | None = None
        self._attested: dict[str, int] = {}
        self._company: dict[str, tuple[int, int]] = {}
        self._release: str | None = None
        self._withheld: dict[str, int] = {}
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

    async def encrypted(self) -> bool:
        return self._encrypted

    async def now(self) -> int:
        return self._clock()

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

    def _entry(self, conversation_id: str, seq: int) -> Entry:
        log = self._seen(conversation_id).log
        try:
            with naming(conversation_id):
                return self.payloads.open_event(conversation_id, seq, log[seq - 1]) if 1 <= seq <= len(log) else None
        except StoreError as error:
            return error

    def _all_views(self, places: Sequence[PendingPlace], *, short: bool) -> list[PendingView]:
        """The suspensions at places; beyond `PAGE_BYTES` they are shortened."""
        found: list[PendingView] = []
        while len(found) < len(places):
            found += self._views(places[len(found) :], short=short or bool(found))
        return found

    def _views(self, places: Sequence[PendingPlace], *, short: bool) -> list[PendingView]:
        """The suspensions at the first places: as many as `PAGE_BYTES` of logs hold, but at least one."""
        found: list[PendingView] = []
        weights: dict[tuple[str, int], int] = {}
        left = PAGE_BYTES
        for place in places:
            view, seqs = self._view(place, short=short)
            names = {(place.conversation_id, seq) for seq in seqs} - weights.keys()
            weights |= {name: self._weight(*name) for name in names}
            left -= sum(weights[name] for name in names)
            if found and left < 0:
                break
            found.append(view)
        return found

    def _weight(self, conversation_id: str, seq: int) -> int:
        log = self._conversations[conversation_id].log
        return len(log[seq - 1]) if 1 <= seq <= len(log) else 0

    def _view(self, place: PendingPlace, *, short: bool) -> tuple[PendingView, list[int]]:
        """The suspension at a place, and the log places behind it."""
        entry = self._entry(place.conversation_id, place.seq)
        at = (entry.arguments_at, entry.message_at) if isinstance(entry, CallSuspended) else (0, 0)
        source, message = (self._entry(place.conversation_id, seq) for seq in at)
        found = self._conversations[place.conversation_id].index
        agent = found.agent if found is not None else ""
        noted_at, notes = self._notes(place)
        view = pending_view(place, agent, entry, source, message=message, notes=notes, short=short)
        return view, [place.seq, *at, *noted_at]

    def _notes(self, place: PendingPlace) -> tuple[list[int], list[Entry]]:
        key = notes_key(place.suspension_id)
        known = self._conversations[place.conversation_id].known.get(key)
        if known is None:
            return [], []
        last = self.payloads.open_known(place.conversation_id, key, known).seq
        seqs = [*noted.earlier(self._entry(place.conversation_id, last), place.suspension_id), last]
        return seqs, [self._entry(place.conversation_id, seq) for seq in seqs]


def check(fine: bool, what: str) -> None:  # noqa: FBT001 - the condition itself
    """Raise `CorruptStore` if the condition is false."""
    if not fine:
        raise CorruptStore(what)
