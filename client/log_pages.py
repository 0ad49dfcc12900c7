"""Pages of a conversation's messages and turns, and single turns, each read from its place in the log and bounded in bytes."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count
from typing import Any

from pydantic import Field

from holdfast.conversation import Event, ids
from holdfast.conversation.log.transcript import Transcript, taken_up, told_of
from holdfast.conversation.records.events import CallResolved, MessageAccepted, ModelAnswered, TurnStarted
from holdfast.conversation.text import jsontext
from holdfast.errors import CorruptStore, InvalidInput, TurnNotFound
from holdfast.persistence import Conversations
from holdfast.persistence.lists import PAGE_BYTES
from holdfast.persistence.pages import check_limit

from .results import Page
from .turns import READ_AT_ONCE, Turn, TurnLog, TurnStatus

END = "end"
"""The cursor behind the last message or turn."""
MOST_READS = 8
"""The most reads of the log for a page that has at least one item."""
PROBED = 16
"""How many entries are read at each place where the beginning of a turn is looked for."""
_CURSOR = re.compile(r"(?:([0-9]{1,15})\.)?([0-9]{1,5})")
"""A place in the log, and how many messages to skip from there: at most the calls of one answer."""
_LAST = 10**15
"""A place behind all logs."""
_PREVIOUS = Field(default=None, description="Pass it as `before` for the page in front of this one; None at the beginning.")


class MessagePage(Page[dict[str, Any]]):
    """A page of messages in the OpenAI chat format, without the system message."""

    previous: str | None = _PREVIOUS
    again: str | None = Field(
        default=None,
        description="The cursor from which to read the page's end again: just before its last message that is no call's "
        "result, since results are inserted behind that message as they come. None if the page has no such message.",
    )


class TurnPage(Page[Turn]):
    """A page of turns."""

    previous: str | None = _PREVIOUS


@dataclass(slots=True)
class _Messages:
    """The messages of a log from the place `begin` on, their sizes, and the places at which the fold can restart."""

    begin: int
    transcript: Transcript = field(default_factory=Transcript)
    sizes: list[int] = field(default_factory=list)
    marks: list[tuple[int, int]] = field(default_factory=list)

    async def take(self, store: Conversations, conversation_id: str, entries: Sequence[tuple[int, Event]]) -> None:
        """Fold entries of the log."""
        for seq, event in await _completed(store, conversation_id, entries, self.begin):
            self.transcript.add(seq, event)
            if said := _said_by(event):
                self.marks.append((self.transcript.settled - said, seq - 1))

    async def read_on(self, store: Conversations, conversation_id: str, limit: int) -> bool:
        """Read more entries; false at the end of the log."""
        page = await store.read(conversation_id, after=max(self.transcript.seq, self.begin), limit=limit)
        await self.take(store, conversation_id, page)
        self.weigh(self.transcript.settled if page else len(self.transcript.messages()))
        return bool(page)

    def weigh(self, count: int) -> None:
        """Note the sizes in bytes of the first `count` messages."""
        messages = self.transcript.messages()[len(self.sizes) : count]
        self.sizes += [jsontext.size_bytes(json.dumps(one, ensure_ascii=False)) for one in messages]

    def cursor(self, count: int) -> str:
        """The cursor of the place after the first `count` messages."""
        index, seq = next((mark for mark in reversed(self.marks) if mark[0] <= count), (0, self.begin))
        return f"{seq}.{count - index}"

    def page(self, start: int, stop: int, **cursors: str | None) -> MessagePage:
        """The page of the messages from `start` to `stop`, with the cursors of its neighbours."""
        items = self.transcript.messages()[start:stop]
        last = next((place for place in reversed(range(len(items))) if items[place]["role"] != "tool"), None)
        return MessagePage(items=items, again=None if last is None else self.cursor(start + last), **cursors)


async def message_page(
    store: Conversations, conversation_id: str, limit: int, after: str | None, before: str | None
) -> MessagePage:
    """See `Conversation.messages_page`. Only the page's part of the log is read."""
    check_limit(limit)
    if before is not None:
        return await _messages_before(store, conversation_id, limit, *_before(after, before))
    begin, skip = _place("after", after)
    end = skip + limit
    found, more = _Messages(begin), True
    while more and len(found.sizes) <= end and sum(found.sizes[skip:]) <= PAGE_BYTES:
        more = await found.read_on(store, conversation_id, _ahead(end))
    if found.transcript.seq == 0:
        await store.load(conversation_id)  # which says whether there is a conversation at all
    stop = min(skip + max(_fitting(found.sizes[skip:end]), 1), len(found.sizes))
    follows = skip < stop and (more or stop < len(found.sizes))
    cursors = {"next": found.cursor(stop) if follows else None, "previous": f"{begin}.{skip}" if begin or skip else None}
    return found.page(skip, stop, **cursors)


async def _messages_before(store: Conversations, conversation_id: str, limit: int, place: int, skip: int) -> MessagePage:
    """The page of the messages up to a place in the log, and of the `skip` messages behind it."""
    entries, whole = await _region(store, conversation_id, place, _shown_by, limit=limit, at_once=_ahead(limit))
    found, more = _Messages(entries[0][0] - 1 if entries else 0), True
    await found.take(store, conversation_id, entries)
    stop = len(found.transcript.messages()) + skip
    while more and found.transcript.settled < stop and skip:
        more = await found.read_on(store, conversation_id, _ahead(skip))
    stop = min(stop, len(found.transcript.messages()))
    found.weigh(stop)
    latest = found.sizes[max(stop - limit, 0) : stop]
    start = max(stop - max(_fitting(latest[::-1]), 1), 0)
    cursors = {
        "next": None if place == _LAST else f"{place}.{skip}",
        "previous": found.cursor(start) if start or not whole else None,
    }
    return found.page(start, stop, **cursors)


async def turn_page(store: Conversations, conversation_id: str, limit: int, after: str | None, before: str | None) -> TurnPage:
    """See `Conversation.turns_page`. Only the page's part of the log is read."""
    check_limit(limit)
    begin, skip = _place("after", after) if before is None else _before(after, before)
    if skip:
        raise _no_cursor(*("after", after) if before is None else ("before", before))
    if before is not None:
        return await _turns_before(store, conversation_id, limit, begin)
    log, starts, reads, more = TurnLog(conversation_id, after=begin), list[int](), 0, True
    while more and len(starts) <= limit and (reads < MOST_READS or len(starts) <= 1):
        page, reads = await store.read(conversation_id, after=log.seq, limit=_of_turns(limit)), reads + 1
        starts += [seq for seq, event in page if _begins(event)]
        log.add_all(await _completed(store, conversation_id, page, begin))
        more = bool(page)
    if log.seq == begin:
        await store.load(conversation_id)  # which says whether there is a conversation at all
    stop = min(limit, len(starts) - 1 if more else len(starts))
    follows = f"{starts[stop] - 1}.0" if stop < len(starts) else None
    return TurnPage(items=log.turns()[:stop], next=follows, previous=f"{begin}.0" if begin else None)


async def _turns_before(store: Conversations, conversation_id: str, limit: int, place: int) -> TurnPage:
    entries, whole = await _region(store, conversation_id, place, _begins, limit=limit, at_once=_of_turns(limit))
    begin = entries[0][0] - 1 if entries else 0
    log = TurnLog(conversation_id, after=begin)
    log.add_all(await _completed(store, conversation_id, entries, begin))
    starts = [seq for seq, event in entries if _begins(event)]
    first = None if whole and len(starts) <= limit else f"{starts[-limit:][0] - 1}.0"
    return TurnPage(items=log.turns()[-limit:], next=None if place == _LAST else f"{place}.0", previous=first)


async def turn_of(store: Conversations, conversation_id: str, turn_id: str) -> Turn:
    """The turn of that id; else `TurnNotFound`. The log is read where the turn stands."""
    state = await store.load(conversation_id)
    if not (isinstance(turn_id, str) and ids.is_turn_id(turn_id, last=state.turns)):
        raise TurnNotFound(conversation_id, turn_id)
    begin = await _beginning(store, conversation_id, int(turn_id[1:]), state.turns, state.seq) - 1
    log, limit = TurnLog(conversation_id, after=begin), PROBED
    while log.seq == begin or log.turn(turn_id).status is TurnStatus.RUNNING:
        page, limit = await store.read(conversation_id, after=log.seq, limit=limit), min(2 * limit, READ_AT_ONCE)
        if not page:
            break
        log.add_all(await _completed(store, conversation_id, page, begin))
    return log.turn(turn_id)


async def _beginning(store: Conversations, conversation_id: str, number: int, turns: int, end: int) -> int:
    """The place at which a turn begins, by its number, in a log of `end` entries and `turns` turns.

    By turns it is looked for where it stands if all turns are of one length, which takes few reads, and in the middle, which
    bounds their number.
    """
    low, begun, high, last, halved = 0, 0, end, turns, True
    while low < high:
        halved = not halved
        share = (high - low) // 2 if halved else (high - low) * (number - begun - 1) // (last - begun) - PROBED // 2
        place = seq = low + max(share, 0)
        starts, limit = dict[int, int](), PROBED
        while not starts and seq < high:
            page, limit = await store.read(conversation_id, after=seq, limit=limit), min(2 * limit, READ_AT_ONCE)
            starts = {int(event.turn_id[1:]): one for one, event in page if isinstance(event, TurnStarted)}
            seq = page[-1][0] if page else high
        if number in starts:
            return starts[number]
        if starts and max(starts) < number:
            low, begun = seq, max(starts)
        else:
            high, last = place, min(starts, default=last + 1) - 1
    raise CorruptStore(f"conversation {conversation_id!r}: the log has no turn {ids.turn_id(number)}")


async def _region(
    store: Conversations, conversation_id: str, place: int, items: Callable[[Event], int], *, limit: int, at_once: int
) -> tuple[list[tuple[int, Event]], bool]:
    """The entries up to a place in the log that have more than `limit` items, and whether they begin the log.

    A fold can begin at an event that has items and is no call's result; those in front of the first such event are not counted.
    Fewer are returned, but at least one, once a read is cut for its size.
    """
    entries, first, counted, found = list[tuple[int, Event]](), place + 1, 0, 0
    for reads in count(1):
        page = await store.read(conversation_id, before=first, limit=at_once) if first > 1 else ()
        entries, first = [*page, *entries], page[0][0] if page else 1
        for _, event in reversed(page):
            counted += items(event)
            if items(event) and not isinstance(event, CallResolved):
                found = counted
        if first == 1 or found > limit or (found and (reads >= MOST_READS or len(page) < at_once)):
            break
    if not entries:
        await store.load(conversation_id)  # which says whether there is a conversation at all
    return entries, first == 1


async def _completed(
    store: Conversations, conversation_id: str, entries: Sequence[tuple[int, Event]], begin: int
) -> list[tuple[int, Event]]:
    """Entries of the log, each behind the messages up to the place `begin` that it takes up into its turn."""
    found = list[tuple[int, Event]]()
    for seq, event in entries:
        places = [one for one in taken_up(event) if one <= begin]
        taken = await store.at(conversation_id, places) if places else []
        messages = [(one, message) for one, message in zip(places, taken, strict=True) if isinstance(message, MessageAccepted)]
        if len(messages) < len(places):
            problem = f"a turn names entries {places}, of which some are no message"
            raise CorruptStore(f"conversation {conversation_id!r}: {problem}")
        found += [*messages, (seq, event)]
    return found


def _said_by(event: Event) -> int:
    """How many messages an event appends to those that are final; of a call's result none."""
    return len(taken_up(event)) or (1 + len(told_of(event)) if isinstance(event, ModelAnswered) else 0)


def _shown_by(event: Event) -> int:
    """How many messages an event appends, a call's result among them."""
    return _said_by(event) or int(isinstance(event, CallResolved))


def _begins(event: Event) -> int:
    """Whether an event begins a turn."""
    return int(isinstance(event, TurnStarted))


def _fitting(sizes: Sequence[int]) -> int:
    """How many of the first messages fit on a page."""
    return sum(weight <= PAGE_BYTES for weight in accumulate(sizes))


def _ahead(limit: int) -> int:
    """How many entries are read at once for a page of `limit` messages."""
    return min(2 * limit + 8, READ_AT_ONCE)


def _of_turns(limit: int) -> int:
    """How many entries are read at once for a page of `limit` turns."""
    return min(8 * limit + 8, READ_AT_ONCE)


def _before(after: str | None, before: str) -> tuple[int, int]:
    """As `_place`, of a page in front of a cursor."""
    if after is not None:
        raise InvalidInput("before", "it cannot be combined with `after`", "pass one of them")
    return (_LAST, 0) if before == END else _place("before", before)


def _place(name: str, cursor: str | None) -> tuple[int, int]:
    """The place in the log at which to begin, and how many messages to skip from there."""
    found = _CURSOR.fullmatch("0" if cursor is None else cursor) if cursor is None or isinstance(cursor, str) else None
    if found is None:
        raise _no_cursor(name, cursor)
    return int(found[1] or 0), int(found[2])


def _no_cursor(name: str, cursor: object) -> InvalidInput:
    way = "the `next` of the page before" if name == "after" else f"the `previous` of the page behind, or {END!r}"
    return InvalidInput(name, f"{cursor!a:.40} is not a cursor", f"pass {way}, or leave it out")
