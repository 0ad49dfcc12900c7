"""Event streams of a server (server-sent events): split into frames, and followed across cuts without a gap."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from holdfast.backoff import Backoff
from holdfast.conversation import jsontext
from holdfast.errors import ServerRefused

from . import http_replies as replies
from .arguments import check_place
from .http_answers import NO_CONTENT, UNREADABLE, loads, told
from .http_exchange import Exchange, said_of
from .results import Event

FRAME_BYTES = 32 * 1024 * 1024
"""How large an event may be as it is sent."""
SILENT_S = 60.0
"""After how long without a byte a stream counts as cut; the server sends a heartbeat every 15 s."""
FIRST_S, LONGEST_S, JITTER = 0.1, 5.0, 0.5
CLOSED = "stream_closed"

logger = logging.getLogger("holdfast.client")


@dataclass(frozen=True, slots=True)
class Frame:
    """One event as it was sent: its name and its data."""

    event: str
    data: str


class Frames:
    """The frames of a stream, fed with its bytes as they come."""

    def __init__(self, limit_bytes: int = FRAME_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._rest = bytearray()
        self._name = ""
        self._data: list[str] = []
        self._size = 0

    def fed(self, chunk: bytes) -> Iterator[Frame]:
        """The frames that end in this chunk.

        Raises:
            ServerRefused: A frame is larger than the limit, or no UTF-8.
        """
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
        if self._size > self._limit_bytes:
            raise ServerRefused(200, UNREADABLE, f"an event has more than {self._limit_bytes} bytes")

    def _line(self, line: bytes) -> Frame | None:
        if not line:
            frame = Frame(self._name, "\n".join(self._data)) if self._data else None
            self._name, self._data, self._size = "", [], 0
            return frame
        name, _, value = line.partition(b":")
        if name in (b"event", b"data"):
            try:
                text = value.removeprefix(b" ").decode("utf-8")
            except UnicodeDecodeError as error:
                raise ServerRefused(200, UNREADABLE, "an event is not UTF-8") from error
            if name == b"event":
                self._name = text
            else:
                self._data.append(text)
        return None


async def follow(
    exchange: Exchange, path: str, *, after: int, live: bool, silent_s: float = SILENT_S
) -> AsyncGenerator[Event, None]:
    """The events of a conversation after a place in its log; where the stream is cut, it goes on after the last one.

    Events of kinds that this release does not know, which a newer server may send, are left out.

    Raises:
        InvalidInput: `after` is no place in a log.
        ServerUnavailable: The server does not answer within the client's deadline.
        HoldfastError: The error that the server raised.
    """
    check_place(after)
    pauses = Backoff(FIRST_S, LONGEST_S, jitter=JITTER)
    while True:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": str(after)} if after else {})
        response = await exchange.opened(path, "the events", headers, live=live)
        try:
            if response.status_code == NO_CONTENT:
                return
            frames, chunks = Frames(), response.aiter_raw()
            while chunk := await _next(chunks, silent_s):
                for frame in frames.fed(chunk):
                    data = _data(frame)
                    if frame.event == CLOSED:
                        if _over(data):
                            return
                        continue  # nothing follows but the end of the answer
                    seq, event = replies.place(data), replies.event(data)
                    if seq is not None:
                        if seq <= after:
                            continue
                        after = seq
                    pauses.reset()
                    if event is None:
                        logger.info("an event of the kind %.80r is left out: this release does not know it", frame.event)
                        continue
                    yield event
                    if event.kind == "conversation_ended":
                        return
        finally:
            await response.aclose()
        await pauses.sleep()


async def _next(chunks: AsyncIterator[bytes], silent_s: float) -> bytes:
    """The next bytes of a stream; none where it ends, is cut, or is silent for too long."""
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
    """Whether a stream that was closed is over; else it goes on at whichever server answers.

    Raises:
        HoldfastError: The error that the stream failed with.
    """
    problem = closed.get("problem")
    if isinstance(problem, dict):
        status = problem.get("status")
        raise told(problem, status if isinstance(status, int) else 500)
    return closed.get("reason") in ("ended", "complete")
