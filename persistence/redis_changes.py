"""The changes of the lists in Redis: a bounded stream in each bucket."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.conversation import Status, SuspensionKind
from holdfast.errors import CorruptStore

from . import codec, pages
from .changes import CHANGES_AT_ONCE, CHANGES_KEPT, Change, ChangePage, Id, Place, Suspended, page
from .keys import BUCKETS
from .redis_database import RedisDatabase

LAST = 2**64 - 1
"""The highest number within a millisecond in a stream entry's id."""

MOST_AT_ONCE = 100_000
"""More events than one append ever writes."""

logger = logging.getLogger(__name__)


class RedisChanges(RedisDatabase):
    """The verbs of `Changes`, in Redis."""

    async def changes(self, place: Place | None = None, *, block_ms: int = 0) -> ChangePage:
        if place is None:
            return ChangePage((), (await self.changes(Place.before_all_of(await self.now()))).place)
        try:
            found = await self._read_changes(place, range(BUCKETS), block_ms)
        except CorruptStore:  # a key of the wrong type spoils its own bucket alone
            found = await self._read_changes(place, await self._streams(), block_ms)
        full = [bucket for bucket, entries in found.items() if len(entries) >= CHANGES_AT_ONCE]
        missed = await self._dropped({bucket: found[bucket][0][0] for bucket in full})
        read = {bucket: [change_of(bucket, id_, fields) for id_, fields in entries] for bucket, entries in found.items()}
        return page(read, place, missed=missed)

    async def _read_changes(self, place: Place, buckets: Sequence[int], block_ms: int) -> dict[int, list[tuple[Id, Any]]]:
        names = {self._keys.changes(bucket).encode(): bucket for bucket in buckets}
        after: dict[Any, Any] = {name: _id_text(place.ids[bucket]) for name, bucket in names.items()}
        if not after:
            return {}
        if block_ms:
            got = await self._repeated(  # a blocking read: its duration is not counted
                lambda: self._bounded(block_ms, self._blocking.xread(after, count=CHANGES_AT_ONCE, block=block_ms)), waits=True
            )
        else:
            got = await self._do(lambda: self._redis.xread(after, count=CHANGES_AT_ONCE))
        return {names[name]: [(_id_of(id_), fields) for id_, fields in entries] for name, entries in got or []}

    async def _streams(self) -> list[int]:
        kinds = await self._pipe(lambda pipe: [pipe.type(self._keys.changes(bucket)) for bucket in range(BUCKETS)])
        return [bucket for bucket, kind in enumerate(kinds) if kind in {b"stream", b"none"}]

    async def _dropped(self, first: Mapping[int, Id]) -> bool:
        """Whether changes may have been dropped before the first ones read: their streams begin there, and are full."""
        if not first:
            return False

        def read(pipe: Any) -> None:
            for bucket in first:
                pipe.xlen(self._keys.changes(bucket))
                pipe.xrange(self._keys.changes(bucket), count=1)

        found = await self._pipe(read)
        return any(
            length >= CHANGES_KEPT and bool(begin) and _id_of(begin[0][0]) >= id_
            for length, begin, id_ in zip(found[::2], found[1::2], first.values(), strict=True)
        )


def change_of(bucket: int, id_: Id, fields: Mapping[bytes, bytes]) -> Change:
    """The change in a stream entry; it lacks a conversation if Holdfast never wrote the entry."""
    try:
        agent, status, _, pending, *_ = codec.unpack(fields[b"i"])
        conversation_id, first, seq = fields[b"c"].decode(), int(fields[b"f"]), int(fields[b"s"])
        pending = len(pending) if isinstance(pending, list) else pending
        opened, closed = _suspended(fields[b"o"]), _suspended(fields[b"x"])
        noted = _suspended(fields.get(b"n", b""))  # older releases, without grants and votes, wrote none
        fits = isinstance(agent, str) and isinstance(pending, int) and pages.is_name(conversation_id)
        # The log is read as far as one append wrote it. A quarantine writes no events, and opens and closes nothing.
        if fits and first >= 1 and (0 <= seq - first < MOST_AT_ONCE or not (opened or closed or noted)):
            found = Change(bucket, id_, conversation_id, first, seq, agent, Status(status), pending, opened, closed, noted)
            return found.told()
    except (LookupError, ValueError, TypeError) as error:
        logger.debug("an entry among the changes of the lists: %s", error)
    logger.warning("an entry among the changes of the lists, %d-%d, cannot be read", *id_)
    return Change(bucket, id_, "", 1, 0, "", Status.ABSENT, 0)


def _suspended(packed: bytes) -> tuple[Suspended, ...]:
    words = packed.decode().split()
    places = [pages.pending_place(member) for member in words[1::2]]
    return tuple(
        Suspended(SuspensionKind(kind), place) for kind, place in zip(words[::2], places, strict=True) if place is not None
    )


def _id_of(text: bytes) -> Id:
    ms, _, number = text.partition(b"-")
    return codec.number_of(ms, "the id of a change"), codec.number_of(number, "the id of a change")


def _id_text(id_: Id) -> str:
    ms, number = id_
    if number >= 0:
        return f"{ms}-{number}"
    return f"{ms - 1}-{LAST}" if ms else "0-0"
