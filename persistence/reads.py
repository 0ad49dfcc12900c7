"""The verbs that show suspended calls and lists, shared by the stores on Redis and in memory."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from holdfast.conversation import Event, State, Status
from holdfast.conversation.ids import may_be_child
from holdfast.conversation.records.calls import PendingView
from holdfast.conversation.records.events import CallSuspended
from holdfast.conversation.records.idempotency import notes_key
from holdfast.errors import CorruptStore, InvalidInput, StoreError

from . import pages
from .conversations import NO_EVENTS
from .hashes import Hashes
from .keys import index_name
from .lists import PAGE_BYTES, ConversationRow, Listing
from .pages import PendingPlace
from .selection import Selection
from .views import Entry, earlier_notes, path_of, pending_view, unreadable_call, unreadable_member, unreadable_row

Place = tuple[str, int]
NO_ENTRIES: Mapping[Place, Entry] = {}
AMBIGUOUS = 5
"""How many suspensions are named whose ids have a given beginning."""


class Reads(Hashes):
    """Verbs of `Conversations`, `Lists` and `Changes`; an unreadable entry spoils only its own row."""

    @abstractmethod
    async def load(self, conversation_id: str) -> State:
        """See `Conversations.load`."""

    @abstractmethod
    async def _entries(self, places: Sequence[Place]) -> Sequence[Entry]:
        """The entries at places in logs, an error in place of an unreadable one."""

    @abstractmethod
    async def _within(self, places: Sequence[Place], most: int, least: int) -> tuple[Sequence[Entry], int]:
        """The entries at the first places, at least `least` and further ones within `most` bytes; and their bytes."""

    @abstractmethod
    async def _rows(self, places: Sequence[tuple[int, str]]) -> Sequence[ConversationRow]:
        """The rows of conversations, by their starts (ms UTC) and ids."""

    @abstractmethod
    async def _last_notes(self, places: Sequence[PendingPlace]) -> Sequence[int]:
        """The place in the log of the last note on each suspension; 0 without any."""

    @abstractmethod
    async def _page(self, indexes: Sequence[str], limit: int, after: str, before: str = "") -> tuple[Sequence[str], bool]:
        """The first members of these indexes together, between two texts if given, and whether more follow."""

    @abstractmethod
    async def _named(self, start: str) -> Sequence[str]:
        """The first `AMBIGUOUS` members of the index by id that begin with a text, without the text itself."""

    @abstractmethod
    async def indexed(self) -> bool:
        """See `Lists.indexed`."""

    @abstractmethod
    async def now(self) -> int:
        """See `Database.now`."""

    async def pending(
        self,
        *,
        limit: int,
        after: str | None = None,
        older_than_s: float | None = None,
        expires_within_s: float | None = None,
        **wanted: Any,
    ) -> Listing:
        now = 0 if older_than_s is None and expires_within_s is None else await self.now()
        wanted["since"] = None if older_than_s is None else max(now - int(older_than_s * 1000), 0)
        wanted["until"] = None if expires_within_s is None else now + int(expires_within_s * 1000)
        selection = Selection(**wanted)
        indexes, before, sure = selection.indexes(further=selection.needs_further and await self.indexed())
        members, more = await self._page(indexes, limit, pages.pending_after(after), before)
        places = [pages.pending_place(member) for member in members]
        if "until" in sure:  # their members begin with the deadline
            places = [place and replace(place, created_at=0) for place in places]
        known = [place for place in places if place is not None]
        views = iter(await self._views(known) if known else ())
        rows: list[PendingView] = []
        for member, place in zip(members, places, strict=True):
            unknown = unreadable_call(PendingPlace(), unreadable_member(member, "pending calls")) if place is None else None
            row = unknown or next(views, None)
            if row is None:  # the rest is too large for this page
                break
            rows.append(row)
        kept = [row for row in rows if selection.keeps(row, sure)]
        if not (more or len(rows) < len(members)):
            return Listing(kept, None)
        return Listing(kept, pages.cursor_of(members[len(rows) - 1], readable=places[len(rows) - 1] is not None))

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
        index = index_name("conversations", agent, status)
        if given or stopped:
            index = "conversations:given" if given else "conversations:stopped"
        members, more = await self._page([index], limit, pages.conversations_after(after))
        places = [pages.conversation_place(member) for member in members]
        known = iter(await self._rows([place for place in places if place is not None]))
        rows = [
            unreadable_row("", 0, unreadable_member(member, "conversations")) if place is None else next(known)
            for member, place in zip(members, places, strict=True)
        ]
        if stopped and not given:
            rows = [row for row in rows if agent in (None, row.agent) and status in (None, row.status)]
        return Listing(rows, pages.cursor_of(members[-1], readable=places[-1] is not None) if more else None)

    async def at(self, conversation_id: str, seqs: Sequence[int]) -> Sequence[Event | None]:
        found = list[Event | None]()
        for entry in await self._entries([(conversation_id, seq) for seq in seqs]):
            if isinstance(entry, StoreError):
                raise entry
            found.append(entry)
        return found

    async def pending_of(self, conversation_id: str | None, suspension_id: str | None = None) -> Sequence[PendingView]:
        if conversation_id is None:
            found = await self._found(suspension_id or "")
            if found is None:
                return ()
            conversation_id, suspension_id = found.conversation_id, found.suspension_id
        return await self.pending_in(await self.load(conversation_id), suspension_id)

    async def pending_in(
        self, state: State, suspension_id: str | None = None, *, known: Mapping[int, Event] = NO_EVENTS
    ) -> Sequence[PendingView]:
        name, asked = state.conversation_id, 0 if state.turn is None else state.turn.message_seq
        path = () if state.parent is None else state.parent.path
        held = {(name, seq): event for seq, event in known.items()}
        calls = [(call, one) for call in state.calls if (one := call.suspension) is not None]
        wanted = [
            (PendingPlace(name, one.seq, one.suspension_id, one.created_at), (one.seq, call.arguments_at, asked, *one.notes))
            for call, one in calls
            if (suspension_id is None and not one.source) or suspension_id == one.suspension_id
        ]
        found: list[PendingView] = []
        while rest := wanted[len(found) :]:
            entries, _ = await self._groups([[(name, seq) for seq in seqs] for _, seqs in rest], PAGE_BYTES, held)
            short = bool(found)
            found += [
                pending_view(place, state.agent, opened, source, message=message, notes=notes, path=path, short=short)
                for (place, _), (opened, source, message, *notes) in zip(rest, entries, strict=False)
            ]
        return found

    async def _found(self, beginning: str) -> PendingPlace | None:
        """The conversation and id of an open suspension, by its id or the beginning of it."""
        if not (pages.is_name(beginning) and len(beginning) >= pages.SHORTEST_ID):
            return None
        if not await self.indexed():
            problem = "the namespace has no index of suspensions by id yet"
            raise InvalidInput("conversation_id", problem, "name the conversation, too, or run `holdfast reindex` once")
        places = await self._beginning(beginning)
        if len(places) > 1:  # one of them may have that very id
            alike, places = places, await self._beginning(f"{beginning}|")
            if not places:
                raise pages.ambiguous(beginning, [place.suspension_id for place in alike])
        return places[0] if places else None

    async def _beginning(self, start: str) -> list[PendingPlace]:
        members = await self._named(start)
        return [place for member in members if (place := pages.place_by_id(member)) is not None]

    async def pending_at(self, places: Sequence[PendingPlace]) -> Sequence[PendingView]:
        found: list[PendingView] = []
        while len(found) < len(places):
            found += await self._views(places[len(found) :])
        return found

    def _noted_at(self, place: PendingPlace, known: bytes) -> int:
        try:
            return self.payloads.open_known(place.conversation_id, notes_key(place.suspension_id), known).seq
        except StoreError:
            return 0

    async def _views(self, places: Sequence[PendingPlace]) -> list[PendingView]:
        """The suspensions at the first places: as many as `PAGE_BYTES` of logs hold, but at least one."""
        names = [place.conversation_id for place in places]
        first = [[(name, 1)] if may_be_child(name) else [] for name in names]
        opened, left = await self._groups(
            [[(place.conversation_id, place.seq), *begun] for place, begun in zip(places, first, strict=True)], PAGE_BYTES
        )
        entries = [entry for entry, *_ in opened]
        paths = [path_of(begun) for _, *begun in opened]
        asked = [(one.arguments_at, one.message_at) if isinstance(one, CallSuspended) else (0, 0) for one in entries]
        around, left = await self._groups(
            [[(name, seq) for seq in seqs] for name, seqs in zip(names, asked, strict=False)], left
        )
        notes = await self._notes(places[: len(around)], left)
        shown = places[: len(notes)]
        rows = await self._rows([(place.created_at, place.conversation_id) for place in shown])
        agents = [row.agent if row.problem is None else CorruptStore(row.problem) for row in rows]
        return [
            pending_view(place, agent, entry, source, message=message, notes=said, path=path, short=True)
            for place, agent, entry, (source, message), said, path in zip(
                shown, agents, entries, around, notes, paths, strict=False
            )
        ]

    async def _notes(self, places: Sequence[PendingPlace], most: int) -> list[list[Entry]]:
        last = await self._last_notes(places)
        if not any(last):
            return [[] for _ in places]
        names = [place.conversation_id for place in places]
        latest, left = await self._groups([[(name, seq)] if seq else [] for name, seq in zip(names, last, strict=True)], most)
        before = [
            [(place.conversation_id, seq) for one in some for seq in earlier_notes(one, place.suspension_id)]
            for place, some in zip(places, latest, strict=False)
        ]
        return [[*some, *one] for some, one in zip((await self._groups(before, left))[0], latest, strict=False)]

    async def _groups(
        self, groups: Sequence[Sequence[Place]], most: int, held: Mapping[Place, Entry] = NO_ENTRIES
    ) -> tuple[list[list[Entry]], int]:
        """The entries of the first groups of places, of at least one, within so many bytes; and the bytes left.

        Entries that are `held` are not read.
        """
        once = list(dict.fromkeys(place for group in groups for place in group if place not in held))
        found, size = await self._within(once, max(most, 0), len({*groups[0]} - held.keys())) if once else ((), 0)
        entries = {**held, **dict(zip(once, found, strict=False))}
        whole = takewhile(lambda group: all(place in entries for place in group), groups)
        return [[entries[place] for place in group] for group in whole], most - size
