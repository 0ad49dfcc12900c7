"""Event streams (server-sent events): recorded events with their cursor as `id`, live events without one, heartbeats.

A stream ends with an event `stream_closed` that says why, and after which `seq` to resume. Lines end in LF. A listener that
takes nothing in for `Bounds.patience_s` is cut off, which bounds the data that waits for it; it resumes by `Last-Event-ID`.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from holdfast.client import Event, ListEvent
from holdfast.errors import HoldfastError

from . import page_view
from .bounds import Bounds
from .caller import LOCAL, Caller
from .error_responses import problem_of
from .refusal import Refusal
from .rendering import as_json
from .slots import Share, Slots

HEARTBEAT = b": \n\n"
RETRY_MS = 1000
"""Milliseconds after which a browser reconnects."""
RECHECK_S = 10
"""Seconds between two checks whether the caller of a stream may still have it."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

T = TypeVar("T")
_E = TypeVar("_E", Event, ListEvent[Any])

logger = logging.getLogger("holdfast.server")


def frame(kind: str, data: Any, *, cursor: int | str | None = None) -> bytes:
    """One event as it is sent. JSON has no raw line break, so the data is one line."""
    head = f"event: {kind}\n" if cursor is None else f"id: {cursor}\nevent: {kind}\n"
    return head.encode() + b"data: " + as_json(data) + b"\n\n"


def frame_of(event: Event | ListEvent[Any], caller: Caller = LOCAL) -> bytes:
    """An event as it is sent to a caller; empty if they do not get it. A live one has no `id` and says `"live": true`."""
    if isinstance(event, ListEvent):
        names = ("kind", "at", "conversation_id", "agent", "seq", "data")
        return frame(event.kind, {name: getattr(event, name) for name in names}, cursor=event.cursor)
    data = page_view.event_of(caller, event)
    if data is None:
        return b""
    told = {**data, "kind": event.kind, "seq": event.seq, "at": event.at, "live": event.seq is None}
    told |= {"conversation_id": event.conversation_id} if event.conversation_id else {}
    return frame(event.kind, told, cursor=event.cursor or event.seq)


class Draining(asyncio.Event):
    """The event that this process has begun to drain; it is never cleared."""

    async def unless(self, work: Awaitable[T]) -> T | None:
        """The result of work; None if the drain begins first, which cancels the work."""
        doing, ending = asyncio.ensure_future(work), asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait({doing, ending}, return_when=asyncio.FIRST_COMPLETED)
            return doing.result() if doing.done() else None
        finally:
            ending.cancel()
            doing.cancel()
            await asyncio.gather(doing, ending, return_exceptions=True)


class Streams:
    """The open event streams of a process."""

    def __init__(self, bounds: Bounds, draining: Draining) -> None:
        self._bounds = bounds
        self._draining = draining
        self._open = Slots(bounds.streams, code="too_many_streams", what="event streams", retry_s=5)

    def __len__(self) -> int:
        return len(self._open)

    def check_room(self, caller: Caller) -> None:
        """Refuse one more stream if all places are taken or the server drains."""
        if self._draining.is_set():
            raise Refusal(
                503, "draining", "this server is shutting down: ask another one, or try again", headers={"Retry-After": "1"}
            )
        self._open.check()
        self._open.check_shares(*caller.shares)

    def of(
        self,
        events: AsyncGenerator[_E, None],
        *,
        after: int | str,
        until: Callable[[_E], bool] | None = None,
        status: int = 200,
        headers: dict[str, str] | None = None,
        framed: Callable[[_E], bytes] | None = None,
        caller: Caller = LOCAL,
        heartbeat_s: float | None = None,
    ) -> "EventStream":
        """The response that streams events. Call `check_room` first: a command begun for a stream can no longer be refused.

        `after` is the `seq` or the cursor after which they begin; `until` says whether an event is the last one; `framed` gives
        the bytes sent for an event, by default those of the API for `caller`; `heartbeat_s` is the longest silence, if shorter
        than that of the bounds.
        """
        framed = framed or partial(frame_of, caller=caller)
        beats_s = self._bounds.heartbeat_s if heartbeat_s is None else min(heartbeat_s, self._bounds.heartbeat_s)
        told = partial(page_view.error_of, caller)
        frames = self._frames(events, after, until or (lambda _: False), framed, told, heartbeat_s=beats_s)
        return EventStream(frames, self._open, self._bounds.patience_s, status, HEADERS | (headers or {}))

    def lines(self, written: AsyncGenerator[bytes, None], *, media_type: str) -> "EventStream":
        """The response that streams lines of text unchanged, within the same bounds. Call `check_room` first."""
        streamed = EventStream(written, self._open, self._bounds.patience_s, 200, dict(HEADERS))
        streamed.headers["content-type"] = media_type
        return streamed

    async def _frames(
        self,
        events: AsyncGenerator[_E, None],
        after: int | str,
        until: Callable[[_E], bool],
        framed: Callable[[_E], bytes],
        told: Callable[[HoldfastError], HoldfastError],
        *,
        heartbeat_s: float,
    ) -> AsyncGenerator[bytes, None]:
        """The frames: the events, heartbeats between them, and at the end the reason and where to resume."""
        yield f"retry: {RETRY_MS}\n\n".encode()
        ending = asyncio.ensure_future(self._draining.wait())
        coming: asyncio.Future[_E | None] | None = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(events, None))
                awaited: set[asyncio.Future[Any]] = {coming, ending}
                await asyncio.wait(awaited, timeout=heartbeat_s, return_when=asyncio.FIRST_COMPLETED)
                if coming.done():
                    event, coming = coming.result(), None
                    if event is None:
                        yield _closed("ended", after)
                        return
                    cursor = event.cursor if isinstance(event, ListEvent) else event.cursor or event.seq
                    after = after if cursor is None else cursor
                    if sent := framed(event):
                        yield sent
                    if until(event):
                        yield _closed("complete", after)
                        return
                elif not ending.done():
                    yield HEARTBEAT
                if ending.done():
                    yield _closed("draining", after)
                    return
        except HoldfastError as error:
            yield _closed("failed", after, problem=problem_of(told(error)))
        finally:
            ending.cancel()
            if coming is not None:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
            await events.aclose()


def _closed(reason: str, after: int | str, **more: Any) -> bytes:
    return frame("stream_closed", {"reason": reason, "after": after, **more})


class EventStream(StreamingResponse):
    """A response that streams frames, and ends when its listener leaves or takes nothing in."""

    def __init__(
        self, frames: AsyncGenerator[bytes, None], slots: Slots, patience_s: float, status: int, headers: dict[str, str]
    ) -> None:
        super().__init__(frames, status_code=status, headers=headers, media_type="text/event-stream")
        self._frames = frames
        self._slots = slots
        self._patience_s = patience_s
        self._stands: Callable[[], Awaitable[bool]] | None = None
        self._shares: Sequence[Share] = ()

    def belongs_to(self, caller: Caller, stands: Callable[[], Awaitable[bool]]) -> None:
        """Count the stream in its caller's shares, and cut it off once the caller is no longer valid: its credential ended."""
        self._shares, self._stands = caller.shares, stands

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - the signature of ASGI
        """Send the frames until they end, the listener leaves, or it has taken nothing in for too long."""

        async def patiently(message: Message) -> None:
            async with asyncio.timeout(self._patience_s):
                await send(message)

        with self._slots.one(), self._slots.counted(*self._shares):
            sending = asyncio.ensure_future(self.stream_response(patiently))
            leaving = asyncio.ensure_future(self.listen_for_disconnect(receive))
            fallen = asyncio.ensure_future(self._fallen())
            try:
                await asyncio.wait({sending, leaving, fallen}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                sending.cancel()
                leaving.cancel()
                fallen.cancel()
                ended, *_ = await asyncio.gather(sending, leaving, fallen, return_exceptions=True)
                await self._frames.aclose()
        if isinstance(ended, TimeoutError):
            logger.info("a listener read nothing for %g s and was disconnected", self._patience_s)
        elif isinstance(ended, Exception) and not isinstance(ended, OSError):  # a listener that left is no error
            logger.error("an event stream broke off", exc_info=ended)

    async def _fallen(self) -> None:
        """Return once the caller may no longer have the stream."""
        while True:
            await asyncio.sleep(RECHECK_S)
            if self._stands is not None and not await self._stands():
                return
