"""Pages of a conversation's messages and turns, each read from its place in the log and bounded in bytes."""

import json
import re
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from pydantic import Field

from holdfast.conversation.log.transcript import Transcript, taken_up
from holdfast.conversation.records.events import Event, MessageAccepted, ModelAnswered, TurnStarted
from holdfast.conversation.text import jsontext
from holdfast.errors import CorruptStore, InvalidInput
from holdfast.persistence import Conversations
from holdfast.persistence.lists import PAGE_BYTES
from holdfast.persistence.pages import check_limit

from .results import Page
from .turns import Turn, TurnLog

READ_AT_ONCE = 500
MOST_READS = 8
"""The most reads of the log for a page that has at least one turn."""
_CURSOR = re.compile(r"(?:([0-9]{1,15})\.)?([0-9]{1,5})")
"""A place in the log, and how many messages to skip from there: at most the calls of one answer."""


class MessagePage(Page[dict[str, Any]]):
    """A page of messages in the OpenAI chat format, without the system message."""

    again: str | None = Field(
        default=None,
        description="The cursor from which to read the page's end again: just before its last message that is no call's "
        "result, since results are inserted behind that message as they come. None if the page has no such message.",
    )


@dataclass(slots=True)
class _Messages:
    """The messages of a log from the place `begin` on, their sizes, and the places at which the fold can restart."""

    begin: int
    transcript: Transcript = field(default_factory=Transcript)
    sizes: list[int] = field(default_factory=list)
    marks: list[tuple[int, int]] = field(default_factory=list)

    async def read_on(self, store: Conversations, conversation_id: str, limit: int) -> bool:
        """Read more entries; false at the end of the log."""
        fold = self.transcript
        page = await store.read(conversation_id, after=max(fold.seq, self.begin), limit=limit)
        for seq, event in page:
            for place, message in await _before(store, conversation_id, event, self.begin):
                fold.add(place, message)
            fold.add(seq, event)
            if isinstance(event, TurnStarted | ModelAnswered):
                self.marks.append((fold.settled - 1, seq - 1))
        messages = fold.messages()
        known = messages[: fold.settled] if page else messages
        self.sizes += [jsontext.size_bytes(json.dumps(one, ensure_ascii=False)) for one in known[len(self.sizes) :]]
        return bool(page)

    def cursor(self, count: int) -> str:
        """The cursor of the place after the first `count` messages."""
        index, seq = next((mark for mark in reversed(self.marks) if mark[0] <= count), (0, self.begin))
        return f"{seq}.{count - index}"


async def message_page(store: Conversations, conversation_id: str, limit: int, after: str | None) -> MessagePage:
    """See `Conversation.messages_page`. Only the page's part of the log is read."""
    begin, skip = _place(after)
    end = skip + check_limit(limit)
    found, more = _Messages(begin), True
    while more and len(found.sizes) <= end and sum(found.sizes[skip:]) <= PAGE_BYTES:
        more = await found.read_on(store, conversation_id, _ahead(end))
    if found.transcript.seq == 0:
        await store.load(conversation_id)  # which says whether there is a conversation at all
    weights = accumulate(found.sizes[skip:end])
    stop = skip + max(sum(weight <= PAGE_BYTES for weight in weights), 1)
    items = found.transcript.messages()[skip : min(stop, len(found.sizes))]
    anew = [seq for index, seq in found.marks if skip <= index < stop]
    follows = bool(items) and (more or stop < len(found.sizes))
    cursor = found.cursor(stop) if follows else None
    return MessagePage(items=items, next=cursor, again=f"{anew[-1]}.0" if anew else None)


async def turn_page(store: Conversations, conversation_id: str, limit: int, after: str | None) -> Page[Turn]:
    """See `Conversation.turns_page`. Only the page's part of the log is read."""
    begin, skip = _place(after)
    if skip:
        raise _no_cursor(after)
    check_limit(limit)
    log, starts, reads, more = TurnLog(conversation_id, after=begin), list[int](), 0, True
    while more and len(starts) <= limit and (reads < MOST_READS or len(starts) <= 1):
        page, reads = await store.read(conversation_id, after=log.seq, limit=_ahead(limit)), reads + 1
        for seq, event in page:
            if isinstance(event, TurnStarted):
                starts.append(seq)
            for place, message in await _before(store, conversation_id, event, begin):
                log.add(place, message)
            log.add(seq, event)
        more = bool(page)
    if log.seq == begin:
        await store.load(conversation_id)  # which says whether there is a conversation at all
    stop = min(limit, len(starts) - 1 if more else len(starts))
    return Page[Turn](items=log.turns()[:stop], next=f"{starts[stop] - 1}.0" if stop < len(starts) else None)


def _ahead(limit: int) -> int:
    """How many entries are read at once for a page of `limit` messages or turns."""
    return min(8 * limit + 8, READ_AT_ONCE)


def _place(cursor: str | None) -> tuple[int, int]:
    """The place in the log at which to begin, and how many messages to skip from there."""
    found = _CURSOR.fullmatch("0" if cursor is None else cursor) if cursor is None or isinstance(cursor, str) else None
    if found is None:
        raise _no_cursor(cursor)
    return int(found[1] or 0), int(found[2])


def _no_cursor(cursor: object) -> InvalidInput:
    return InvalidInput("after", f"{cursor!a:.40} is not a cursor", "pass the `next` of the page before, or leave it out")


async def _before(store: Conversations, conversation_id: str, event: Event, begin: int) -> list[tuple[int, MessageAccepted]]:
    """The messages that an event takes up into its turn, of those up to the place `begin`, each with its own place."""
    places = [seq for seq in taken_up(event) if seq <= begin]
    found = await store.at(conversation_id, places) if places else []
    messages = [(seq, one) for seq, one in zip(places, found, strict=True) if isinstance(one, MessageAccepted)]
    if len(messages) < len(places):
        raise CorruptStore(f"conversation {conversation_id!r}: a turn names entries {places}, of which some are no message")
    return messages
