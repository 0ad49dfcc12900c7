"""The connections of one process: how many there are, in all and by address, and how long each may be idle or stuck.

A connection is idle from when it is made, or its last response is complete, until the head of its next request is whole. It has
`Bounds.head_s` for that, even if bytes trickle in. When there is no room for a new connection, an idle one is closed for it, or
else one whose peer takes in nothing.
"""

import asyncio
import contextlib
import logging
import resource
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, cast

from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from .arrived import network_of
from .bounds import Bounds
from .error_responses import MEDIA_TYPE, problem_of
from .refusal import Refusal
from .rendering import as_json

TAKEN_BYTES = 16 * 1024
"""Bytes that a slow peer must take in within `Bounds.flush_s` to keep its connection."""
LOOK_S = 1.0
"""Seconds between two looks for connections whose time is over."""

logger = logging.getLogger("holdfast.server")


class Connections:
    """The open connections of a process, within `bounds`.

    `is_proxy` tells the addresses of known proxies, which speak for many and are not bound to one address's share. `most` is
    how many there may be at once; by default as `bounds` says, and at most half of the process's open-file limit.
    """

    def __init__(self, bounds: Bounds, is_proxy: Callable[[str], bool], *, most: int | None = None) -> None:
        self._bounds = bounds
        self._is_proxy = is_proxy
        self._most = most or min(bounds.connections, max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2, 1))
        self._open: dict[Connection, str | None] = {}
        self._held: Counter[str | None] = Counter()
        self._waiting: OrderedDict[Connection, float] = OrderedDict()

    @classmethod
    def of(cls, app: Starlette) -> "Connections":
        """The connections of an application of `create_app`."""
        serving = app.state.serving
        return cls(serving.bounds, serving.callers.is_proxy)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def protocol(self) -> type[asyncio.Protocol]:
        """The protocol class that uvicorn makes for each connection (its option `http`)."""
        return cast("type[asyncio.Protocol]", partial(Connection, self))

    def take(self, connection: "Connection", address: str) -> bool:
        """Count a new connection; False if there is no room for it."""
        holder = None if self._is_proxy(address) else network_of(address)
        if holder is not None and self._held[holder] >= max(self._most // 2, 1):
            fits = self._room(lambda other: self._open[other] == holder)  # this also makes room in the whole
        else:
            fits = len(self._open) < self._most or self._room(lambda _: True)
        if not fits:
            return False
        self._open[connection] = holder
        self._held[holder] += 1
        self._waiting[connection] = connection.loop.time()
        return True

    def gone(self, connection: "Connection") -> None:
        """Stop counting a connection."""
        self._waiting.pop(connection, None)
        if connection in self._open:
            holder = self._open.pop(connection)
            self._held[holder] -= 1
            if not self._held[holder]:
                del self._held[holder]

    def waits(self, connection: "Connection", *, now: bool) -> None:
        """Record whether a connection is idle; it is idle since it was first recorded so."""
        if not now:
            self._waiting.pop(connection, None)
        elif connection in self._open:
            self._waiting.setdefault(connection, connection.loop.time())

    @contextlib.asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Close connections whose time is over while the block runs."""
        looking = asyncio.create_task(self._look())
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_S)
            now = loop.time()
            late = 0
            while self._waiting and now - next(iter(self._waiting.values())) >= self._bounds.head_s:
                connection, _ = self._waiting.popitem(last=False)
                connection.transport.close()
                late += 1
            if late:
                logger.info("%d connections sent no request within %g s and were closed", late, self._bounds.head_s)
            for connection in list(self._open):
                connection.check(now, self._bounds.flush_s)

    def _room(self, suits: Callable[["Connection"], bool]) -> bool:
        """Make room: close the longest idle connection among those that suit, or else one whose peer takes in nothing.

        False if there is neither.
        """
        oldest = next((connection for connection in self._waiting if suits(connection)), None)
        if oldest is None:
            back = [one for one in self._open if one.held_back_at is not None and suits(one)]
            oldest = min(back, key=lambda one: one.held_back_at or 0.0, default=None)
        if oldest is None:
            return False
        self.gone(oldest)
        oldest.transport.abort()
        return True


class Connection(H11Protocol):
    """uvicorn's connection, which also knows whether a request is under way and since when its peer takes nothing in."""

    def __init__(self, connections: Connections, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._connections = connections
        self._paused = False
        self._unread: tuple[int, float] | None = None
        self.held_back_at: float | None = None
        """Since when the peer takes in next to nothing of what is sent (seconds of the loop); None if it does."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let the connection in, or answer that there is no room."""
        super().connection_made(transport)
        if not self._connections.take(self, self.client[0] if self.client else ""):
            transport.write(_FULL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the connection's place."""
        self._connections.gone(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes in. A head that arrives bit by bit gets no more time."""
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        """Record that the peer is behind with what was sent."""
        super().pause_writing()
        self._paused = True

    def resume_writing(self) -> None:
        """Record that the peer has caught up."""
        super().resume_writing()
        self._paused, self._unread, self.held_back_at = False, None, None  # the peer has drained the buffer to its low mark

    def check(self, now: float, flush_s: float) -> None:
        """Abort the connection if its peer has taken in next to nothing for so long while data waits or it is closing."""
        if not (self._paused or self.transport.is_closing()):
            self._unread = self.held_back_at = None
            return
        left_bytes = self.transport.get_write_buffer_size()
        if self._unread is None or left_bytes <= self._unread[0] - TAKEN_BYTES:
            self._unread, self.held_back_at = (left_bytes, now), None
        elif now - self._unread[1] >= flush_s:
            self.transport.abort()
        else:
            self.held_back_at = self.held_back_at or self._unread[1]

    def _note(self) -> None:
        self._connections.waits(self, now=self.cycle is None or self.cycle.response_complete)


_BODY = as_json(problem_of(Refusal(503, "too_many_connections", "this server has no room for one more connection")))
_HEAD = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(_BODY)}\r\n"
_FULL = f"{_HEAD}Retry-After: 1\r\nConnection: close\r\n\r\n".encode() + _BODY
