"""A server's event streams (server-sent events): split into frames, and followed across cuts without a gap."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import httpx

from holdfast.backoff import Backoff
from holdfast.conversation import Receipt, SuspensionKind
from holdfast.conversation.terms.presence import GONE_MS
from holdfast.conversation.text import jsontext
from holdfast.errors import ServerRefused

from . import http_replies as replies
from .http_exchange import Exchange, said_of
from .http_replies import NO_CONTENT, UNREADABLE, loads, told
from .list_events import LIST_CURSOR, AsyncListEvent, ListEventKind
from .results import Event

FRAME_BYTES = 32 * 1024 * 1024
SILENT_S = 60.0
"""Seconds without a byte after which a stream counts as cut; the server sends a heartbeat every 15 s."""
FIRST_S, LONGEST_S, JITTER = 0.1, 5.0, 0.5
CLOSED = "stream_closed"

logger = logging.getLogger("holdfast.client")


@dataclass(frozen=True, slots=True)
class Frame:
    """One event as it was sent."""

    event: str
    data: str
    id: str | None = None


class Frames:
    """The frames of a stream, fed with its bytes as they come."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._name = ""
        self._id: str | None = None
        self._data: list[str] = []
        self._size = 0

    def fed(self, chunk: bytes) -> Iterator[Frame]:
        """The frames that end in this chunk; `ServerRefused` if one is larger than the limit, or no UTF-8."""
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            self._take(part)
            line, self._rest = bytes(self._rest).removesuffix(b"\r"), bytearray()
            frame = self._line(line)
            if frame is not None:
                yield frame
        self._take(rest)

    def _take(self, part: bytes) -> None:
        self._rest += part
        self._size += len(part)
        if self._size > FRAME_BYTES:
            raise ServerRefused(200, UNREADABLE, f"an event has more than {FRAME_BYTES} bytes")

    def _line(self, line: bytes) -> Frame | None:
        if not line:
            frame = Frame(self._name, "\n".join(self._data), self._id) if self._data else None
            self._name, self._id, self._data, self._size = "", None, [], 0
            return frame
        name, _, value = line.partition(b":")
        if name in (b"event", b"id", b"data"):
            try:
                text = value.removeprefix(b" ").decode("utf-8")
            except UnicodeDecodeError as error:
                raise ServerRefused(200, UNREADABLE, "an event is not UTF-8") from error
            if name == b"event":
                self._name = text
            elif name == b"id":
                self._id = text
            else:
                self._data.append(text)
        return None


async def follow(exchange: Exchange, path: str, *, after: int, live: bool) -> AsyncGenerator[Event, None]:
    """The events of a conversation after a place in its log; after a cut, the stream goes on after the last event.

    Events of unknown kinds, which a newer server may send, are left out.
    """
    stream = Stream(exchange, path, last=str(after) if after else None, live=live)
    async with contextlib.aclosing(stream.events()) as events:
        async for data in events:
            seq, event = replies.place(data), replies.event(data)
            if seq is not None:
                if seq <= after:
                    continue
                after = seq
                stream.last = str(after)
            if event is None:
                logger.info("an event of the kind %.80r is left out: this release does not know it", data.get("kind"))
                continue
            yield event
            if event.kind == "conversation_ended":
                return


async def follow_below(exchange: Exchange, path: str, *, after: str, live: bool) -> AsyncGenerator[Event, None]:
    """The events of a conversation and of those below it after a cursor; after a cut, the stream goes on there."""
    stream = Stream(exchange, path, last=after, live=live, descendants=True)
    async with contextlib.aclosing(stream.events()) as events:
        async for data in events:
            event = replies.event(data)
            stream.last = stream.cursor or stream.last
            if event is None:
                logger.info("an event of the kind %.80r is left out: this release does not know it", data.get("kind"))
                continue
            whose = str(data.get("conversation_id", ""))
            yield replace(event, conversation_id=whose, cursor=None if event.seq is None else stream.cursor)


async def follow_lists(
    exchange: Exchange,
    resolve: Callable[..., Awaitable[Receipt]],
    *,
    after: str | None,
    agent: Collection[str] | None,
    kind: SuspensionKind | None,
) -> AsyncGenerator[AsyncListEvent, None]:
    """The events of the lists after a cursor; after a cut, the stream goes on after the last event with a cursor."""
    only = next(iter(agent)) if agent is not None and len(agent) == 1 else None  # a server filters by one agent at most
    stream = Stream(exchange, "/v1/events", last=after, agent=only, kind=kind)
    async with contextlib.aclosing(stream.events()) as events:
        async for data in events:
            if stream.cursor is not None and LIST_CURSOR.fullmatch(stream.cursor) is None:
                raise ServerRefused(200, UNREADABLE, "the id of an event is no cursor")
            stream.last = stream.cursor or stream.last
            known = data.get("kind") in frozenset(ListEventKind)  # a later server may tell more
            if known and (agent is None or not data.get("conversation_id") or data.get("agent") in agent):
                yield replace(replies.list_event(data, resolve), cursor=stream.cursor)


async def follow_attached(
    exchange: Exchange, resolve: Callable[..., Awaitable[Receipt]], path: str, **client: Any
) -> AsyncGenerator[AsyncListEvent, None]:
    """The events of an attached client, which is present while the stream is open; after a cut, another one begins anew."""
    stream = Stream(exchange, path, last=None, silent_s=GONE_MS / 1000, **client)
    async with contextlib.aclosing(stream.events()) as events:
        async for data in events:
            if data.get("kind") in frozenset(ListEventKind):
                yield replies.list_event(data, resolve)


class Stream:
    """A stream of events that is opened again after a cut: after the id `last`; `cursor` is the id of the latest event.

    A stream without a byte for `silent_s` seconds counts as cut.
    """

    def __init__(self, exchange: Exchange, path: str, *, last: str | None, silent_s: float | None = None, **query: Any) -> None:
        self._exchange = exchange
        self._path = path
        self._query = query
        self._silent_s = silent_s
        self.last = last
        self.cursor: str | None = None

    async def events(self) -> AsyncGenerator[dict[str, Any], None]:
        """The data of the events."""
        pauses = Backoff(FIRST_S, LONGEST_S, jitter=JITTER)
        while True:
            headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": self.last} if self.last is not None else {})
            response = await self._exchange.opened(self._path, "the events", headers, **self._query)
            try:
                if response.status_code == NO_CONTENT:
                    return
                frames, chunks = Frames(), response.aiter_raw()
                while chunk := await _next(chunks, SILENT_S if self._silent_s is None else self._silent_s):
                    for frame in frames.fed(chunk):
                        data = _data(frame)
                        if frame.event == CLOSED:
                            if _over(data):
                                return
                            continue  # nothing follows but the end of the answer
                        pauses.pause_s = FIRST_S
                        self.cursor = frame.id
                        yield data
            finally:
                await response.aclose()
            await pauses.sleep()


async def _next(chunks: AsyncIterator[bytes], silent_s: float) -> bytes:
    """The next bytes of a stream; none if it ends, is cut, or is silent for so many seconds."""
    try:
        async with asyncio.timeout(silent_s):
            while not (chunk := await anext(chunks, None)):
                if chunk is None:
                    return b""
            return chunk
    except TimeoutError:
        logger.debug("a stream of events was silent for %g s", silent_s)
    except httpx.TransportError as error:
        logger.debug("a stream of events was cut: %s", said_of(error))
    return b""


def _data(frame: Frame) -> dict[str, Any]:
    try:
        data = loads(frame.data)
    except jsontext.NotJson as error:
        raise ServerRefused(200, UNREADABLE, f"an event is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise ServerRefused(200, UNREADABLE, "an event is no JSON object")
    return data


def _over(closed: dict[str, Any]) -> bool:
    """Whether a closed stream is complete, or else is to be opened again; an error that ended it is raised."""
    problem = closed.get("problem")
    if isinstance(problem, dict):
        status = problem.get("status")
        raise told(problem, status if isinstance(status, int) else 500)
    return closed.get("reason") in ("ended", "complete")
