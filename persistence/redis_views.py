"""Reads that several verbs on Redis share: events at places, heads, open suspensions as rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.conversation.records.idempotency import notes_key
from holdfast.errors import CorruptStore, StoreError

from . import pages, redis_values
from .keys import BUCKETS
from .lists import ConversationRow
from .pages import PendingPlace
from .redis_database import RedisDatabase
from .views import Entry, naming, unreadable_row

SCANNED_AT_ONCE = 100
"""The most members of each bucket that one search step reads; other clients are served in between."""


class RedisViews(RedisDatabase):
    """Reads of many conversations at once; an unreadable entry spoils only its own place."""

    async def _entries(self, places: Sequence[tuple[str, int]]) -> list[Entry]:
        once = list(dict.fromkeys(places))

        log = self._keys.log
        found = await self._each(lambda pipe: [pipe.xrange(log(name), min=f"{seq}-0", max=f"{seq}-0") for name, seq in once])
        by_place = {place: self._entry(place, one) for place, one in zip(once, found, strict=True)}
        return [by_place[place] for place in places]

    async def _rows(self, places: Sequence[tuple[int, str]]) -> list[ConversationRow]:
        once = list(dict.fromkeys(name for _, name in places))
        heads = await self._each(lambda pipe: [pipe.hmget(self._keys.head(name), ["index", "at"]) for name in once])
        by_name = dict(zip(once, heads, strict=True))
        return [row_of_head(created_at, name, by_name[name]) for created_at, name in places]

    async def _within(self, places: Sequence[tuple[str, int]], most: int, least: int) -> tuple[list[Entry], int]:
        keys = [self._keys.log(name) for name, _ in places]
        _, size, *found = await self._script("entries", keys, [most, least, *(seq for _, seq in places)])
        return [self._entry(place, one) for place, one in zip(places, map(_fields, found), strict=False)], int(size)

    async def _last_notes(self, places: Sequence[PendingPlace]) -> list[int]:
        known = self._keys.known
        said = await self._each(
            lambda pipe: [pipe.hget(known(place.conversation_id), notes_key(place.suspension_id)) for place in places]
        )
        pairs = zip(places, said, strict=True)
        return [self._noted_at(place, found) if isinstance(found, bytes) else 0 for place, found in pairs]

    def _entry(self, place: tuple[str, int], found: Any) -> Entry:
        try:
            with naming(place[0]):
                if isinstance(found, StoreError):
                    raise found
                return redis_values.event_of(*place, found[0][1], self.payloads) if found else None
        except StoreError as error:
            return error

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


def row_of_head(created_at: int, conversation_id: str, head: Any) -> ConversationRow:
    """The row of a conversation in a list, from its head; an unreadable head gives a row with a problem."""
    try:
        if isinstance(head, StoreError):
            raise head
        packed, at = head
        if not packed:
            raise CorruptStore(f"the head of {conversation_id!r} is missing or empty")
        return redis_values.row_of(conversation_id, packed, at)
    except StoreError as error:
        return unreadable_row(conversation_id, created_at, str(error))


def _fields(entry: Any) -> Any:
    if entry == b"type":
        return CorruptStore("a key has the wrong type (it is no stream)")
    return [] if entry == b"none" else [(b"", dict(zip(entry[::2], entry[1::2], strict=True)))]
