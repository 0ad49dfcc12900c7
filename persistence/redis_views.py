"""Reads that several verbs on Redis share: events at places, heads, open suspensions as rows."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from holdfast.conversation.records.calls import PendingView
from holdfast.conversation.records.events import CallSuspended
from holdfast.conversation.records.idempotency import notes_key
from holdfast.errors import CorruptStore, StoreError

from . import noted, pages, redis_values
from .keys import BUCKETS
from .lists import PAGE_BYTES, ConversationRow
from .pages import PendingPlace
from .redis_database import RedisDatabase
from .views import Entry, checked_row, naming, pending_view, unreadable_row

SCANNED_AT_ONCE = 100
"""The most members of each bucket that one search step reads; other clients are served in between."""


class RedisViews(RedisDatabase):
    """Reads of many conversations at once; an unreadable entry spoils only its own place."""

    async def _entries(self, places: Sequence[tuple[str, int]]) -> list[Entry]:
        """The entries at places in logs, an error in place of an unreadable one. A place given many times is read once."""
        once = list(dict.fromkeys(places))

        log = self._keys.log
        found = await self._each(lambda pipe: [pipe.xrange(log(name), min=f"{seq}-0", max=f"{seq}-0") for name, seq in once])
        by_place = {place: self._entry(place, one) for place, one in zip(once, found, strict=True)}
        return [by_place[place] for place in places]

    async def _heads(self, conversation_ids: Sequence[str]) -> list[Any]:
        once = list(dict.fromkeys(conversation_ids))
        heads = await self._each(lambda pipe: [pipe.hmget(self._keys.head(name), ["index", "at"]) for name in once])
        by_name = dict(zip(once, heads, strict=True))
        return [by_name[conversation_id] for conversation_id in conversation_ids]

    def _entry(self, place: tuple[str, int], found: Any) -> Entry:
        try:
            with naming(place[0]):
                if isinstance(found, StoreError):
                    raise found
                return redis_values.event_of(*place, found[0][1], self.payloads) if found else None
        except StoreError as error:
            return error

    async def _all_views(self, places: Sequence[PendingPlace], *, short: bool) -> list[PendingView]:
        found: list[PendingView] = []
        while len(found) < len(places):
            found += await self._views(places[len(found) :], short=short or bool(found))
        return found

    async def _views(self, places: Sequence[PendingPlace], *, short: bool) -> list[PendingView]:
        """The suspensions at the first places: as many as `PAGE_BYTES` of logs hold, but at least one."""
        names = [place.conversation_id for place in places]
        opened, left = await self._groups([[(place.conversation_id, place.seq)] for place in places], PAGE_BYTES)
        entries = [entry for (entry,) in opened]
        asked = [(one.arguments_at, one.message_at) if isinstance(one, CallSuspended) else (0, 0) for one in entries]
        around, left = await self._groups(
            [[(name, seq) for seq in seqs] for name, seqs in zip(names, asked, strict=False)], left
        )
        notes = await self._notes(places[: len(around)], left)
        rows = places[: len(notes)]
        heads = await self._heads([place.conversation_id for place in rows])
        return [
            pending_view(place, _agent(place, head), entry, source, message=message, notes=said, short=short)
            for place, head, entry, (source, message), said in zip(rows, heads, entries, around, notes, strict=False)
        ]

    async def _notes(self, places: Sequence[PendingPlace], most: int) -> list[list[Entry]]:
        known = self._keys.known
        said = await self._each(
            lambda pipe: [pipe.hget(known(place.conversation_id), notes_key(place.suspension_id)) for place in places]
        )
        last = [self._last_note(place, found) for place, found in zip(places, said, strict=True)]
        if not any(last):
            return [[] for _ in places]
        names = [place.conversation_id for place in places]
        latest, left = await self._groups([[(name, seq)] if seq else [] for name, seq in zip(names, last, strict=True)], most)
        before = [
            [(place.conversation_id, seq) for one in some for seq in noted.earlier(one, place.suspension_id)]
            for place, some in zip(places, latest, strict=False)
        ]
        return [[*some, *one] for some, one in zip((await self._groups(before, left))[0], latest, strict=False)]

    async def _found(self, suspension_id: str) -> list[PendingPlace]:
        if not pages.is_name(suspension_id):  # no id, and perhaps a pattern that matches other ids
            return []
        counts = await self._each(lambda pipe: [pipe.zcard(self._keys.pending(bucket)) for bucket in range(BUCKETS)])
        pages.check_scan(sum(one for one in counts if isinstance(one, int)))
        cursors = dict.fromkeys(range(BUCKETS), 0)
        while cursors:
            found, cursors = await self._scanned(cursors, f"*|{suspension_id}|*")
            places = (pages.pending_place(member) for member in found)
            place = next((one for one in places if one is not None and one.suspension_id == suspension_id), None)
            if place is not None:
                return [place]
        return []

    async def _scanned(self, cursors: Mapping[int, int], pattern: str) -> tuple[list[str], dict[int, int]]:
        """The matching members in the next part of the buckets' pending indexes, and the cursors of the rest."""
        keys = self._keys
        answers = await self._each(
            lambda pipe: [
                pipe.zscan(keys.pending(bucket), cursor, match=pattern, count=SCANNED_AT_ONCE)
                for bucket, cursor in cursors.items()
            ]
        )
        pairs = [(bucket, one) for bucket, one in zip(cursors, answers, strict=True) if not isinstance(one, StoreError)]
        members = [member.decode("latin-1") for _, (_, found) in pairs for member, _ in found]
        return members, {bucket: int(cursor) for bucket, (cursor, _) in pairs if int(cursor)}

    async def _groups(self, groups: Sequence[Sequence[tuple[str, int]]], most: int) -> tuple[list[list[Entry]], int]:
        """The entries of the first groups of places, of at least one, within so many bytes; and the bytes left."""
        once = list(dict.fromkeys(place for group in groups for place in group))
        if not once:
            return [[] for _ in groups], most
        keys = [self._keys.log(name) for name, _ in once]
        least = len(set(groups[0]))
        _, size, *found = await self._script("entries", keys, [max(most, 0), least, *(seq for _, seq in once)])
        entries = {place: self._entry(place, one) for place, one in zip(once, map(_fields, found), strict=False)}
        whole = takewhile(lambda group: all(place in entries for place in group), groups)
        return [[entries[place] for place in group] for group in whole], most - int(size)

    def _last_note(self, place: PendingPlace, found: Any) -> int:
        if not isinstance(found, bytes):
            return 0
        try:
            return self.payloads.open_known(place.conversation_id, notes_key(place.suspension_id), found).seq
        except StoreError:
            return 0


def row_of_head(created_at: int, conversation_id: str, head: Any) -> ConversationRow:
    """The row of a conversation in a list, from its head; an unreadable head gives a row with a problem."""
    try:
        if isinstance(head, StoreError):
            raise head
        packed, at = head
        if not packed:
            raise CorruptStore(f"the head of {conversation_id!r} is gone, or says nothing of it")
        return checked_row(redis_values.row_of(conversation_id, packed, at))
    except StoreError as error:
        return unreadable_row(conversation_id, created_at, str(error))


def _fields(entry: Any) -> Any:
    if entry == b"type":
        return CorruptStore("a key has the wrong type (it is no stream)")
    return [] if entry == b"none" else [(b"", dict(zip(entry[::2], entry[1::2], strict=True)))]


def _agent(place: PendingPlace, head: Any) -> str | StoreError:
    row = row_of_head(place.created_at, place.conversation_id, head)
    return row.agent if row.problem is None else CorruptStore(row.problem)
