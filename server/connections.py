"""The connections of one process: how many there are, from each address as well, and how long each may keep it waiting.

A connection waits from when it is made, or its last response is complete, until the head of its next request is whole. It has
`Bounds.head_s` for that, however its bytes come. Where there is no room for a new connection, one that waits gives way to it,
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

from .bounds import Bounds
from .peers import network_of
from .problems import MEDIA_TYPE, problem_of
from .refusal import Refusal
from .rendering import as_json

TAKEN_BYTES = 16 * 1024
"""How much a peer must take in within `Bounds.flush_s` where it holds back what is sent, so that its connection is kept."""
LOOK_S = 1.0
"""How often it is looked for connections whose time is over, in seconds."""

logger = logging.getLogger("holdfast.server")


class Connections:
    """The open connections of a process.

    Args:
        bounds: How many there may be, and for how long.
        is_proxy: Whether an address is that of a known proxy, which speaks for many and has no share of its own.
        most: How many there may be at once; None: as `bounds` says, and at most half of the files that the process may open.
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
        """Those of an application of `create_app`."""
        serving = app.state.serving
        return cls(serving.bounds, serving.callers.is_proxy)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def protocol(self) -> type[asyncio.Protocol]:
        """What uvicorn makes for each connection (its option `http`)."""
        return cast("type[asyncio.Protocol]", partial(Connection, self))

    def take(self, connection: "Connection", address: str) -> bool:
        """Count a new connection; false if there is no room for it."""
        holder = None if self._is_proxy(address) else network_of(address)
        if holder is not None and self._held[holder] >= max(self._most // 2, 1):
            fits = self._room(lambda other: self._open[other] == holder)  # which makes room in the whole, too
        else:
            fits = len(self._open) < self._most or self._room(lambda _: True)
        if not fits:
            return False
        self._open[connection] = holder
        self._held[holder] += 1
        self._waiting[connection] = connection.loop.time()
        return True

    def gone(self, connection: "Connection") -> None:
        """Count a connection no more."""
        self._waiting.pop(connection, None)
        if connection in self._open:
            holder = self._open.pop(connection)
            self._held[holder] -= 1
            if not self._held[holder]:
                del self._held[holder]

    def waits(self, connection: "Connection", *, now: bool) -> None:
        """Note whether a connection has no request under way; it has waited since it was first noted."""
        if not now:
            self._waiting.pop(connection, None)
        elif connection in self._open:
            self._waiting.setdefault(connection, connection.loop.time())

    @contextlib.asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Close connections whose time is over, meanwhile."""
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
        """Make room by the connection that has waited longest among those that suit, else by one that holds back what is sent.

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
    """uvicorn's connection, of which it is known whether a request is under way, and since when its peer takes nothing in."""

    def __init__(self, connections: Connections, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._connections = connections
        self._paused = False
        self._unread: tuple[int, float] | None = None
        self.held_back_at: float | None = None
        """Since when the peer takes next to nothing in of what is sent (seconds of the loop); None if it does."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let the connection in, or say that there is no room."""
        super().connection_made(transport)
        if not self._connections.take(self, self.client[0] if self.client else ""):
            transport.write(_FULL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the connection's place back."""
        self._connections.gone(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes in. A head that comes bit by bit has no more time for that."""
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        """Note that more was sent than the peer has taken in."""
        super().pause_writing()
        self._paused = True

    def resume_writing(self) -> None:
        """Note that the peer has taken in what was sent."""
        super().resume_writing()
        self._paused, self._unread, self.held_back_at = False, None, None  # it took in what lies between the transport's marks

    def check(self, now: float, flush_s: float) -> None:
        """Break the connection off if its peer takes next to nothing in for so long, though there is more, or it is closed."""
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


def _full() -> bytes:
    body = as_json(problem_of(Refusal(503, "too_many_connections", "this server has no room for one more connection")))
    head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Retry-After: 1\r\nConnection: close\r\n\r\n".encode() + body


_FULL = _full()
