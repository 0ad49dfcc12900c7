"""Messages published in a Redis, received over one connection for all listeners of this process.

A broken connection may lose messages. Listeners are then told of a gap instead of an error: they read the stored values again,
and learn from that read whether the server is gone.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from holdfast.backoff import Backoff
from holdfast.errors import HoldfastError, StoreUnavailable

from .redis_connection import SOCKET_TIMEOUT_S, translated

FIRST_PAUSE_S = 0.02
KEEP_S = 10.0
"""Seconds for which a channel without listeners stays subscribed: usually the next listener comes at once."""
PING_S = 5.0
"""Seconds between two pings of the connection."""
SILENT_S = 15.0
"""Seconds of silence after which the connection is given up."""
AHEAD = 1000
"""The most messages that wait for one listener; beyond that, the oldest are dropped."""


logger = logging.getLogger(__name__)


class Listener:
    """One listener to a channel, for the length of a block.

    This is a class, since a closing event loop closes all generators at once, outer blocks before inner ones.
    """

    def __init__(self, broadcasts: "Broadcasts", name: str) -> None:
        self._broadcasts, self._name = broadcasts, name
        self._messages: deque[bytes | None] = deque(maxlen=AHEAD)
        self._arrived = asyncio.Event()
        self._error: HoldfastError | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._broadcasts.begin(self._name, self)
        except BaseException:
            self._broadcasts.left(self._name, self)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._broadcasts.left(self._name, self)

    def tell(self, message: bytes | None) -> None:
        """Queue a message; None stands for a gap."""
        if message is not None or not self._messages or self._messages[-1] is not None:
            full = len(self._messages) == AHEAD
            self._messages.append(message)
            if full:  # the dropped message left a gap
                self._messages[0] = None
        self._arrived.set()

    def end(self, error: HoldfastError) -> None:
        """End the listener: once the queued messages are read, it raises this error."""
        self._error = error
        self._arrived.set()

    async def message(self) -> bytes | None:
        """Wait for the next message; None for a gap. `StoreUnavailable` once the store was closed."""
        while not self._messages:
            if self._error is not None:
                raise self._error.with_traceback(None)
            self._arrived.clear()
            await self._arrived.wait()
        return self._messages.popleft()


class _Channel:
    def __init__(self) -> None:
        self.listeners: set[Listener] = set()
        self.left_at_s = 0.0
        self.subscribed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.missed = False

    def interrupt(self, error: HoldfastError) -> None:
        """Tell all listeners, also those that still subscribe, that the connection broke."""
        if not self.subscribed.done():
            self.subscribed.set_exception(error)
            self.subscribed.exception()  # marks the error as seen, for nobody may be waiting
        self.subscribed = asyncio.get_running_loop().create_future()
        self.missed = True
        self.tell(None)

    def tell(self, message: bytes | None) -> None:
        for listener in self.listeners:
            listener.tell(message)


class Broadcasts:
    """The channels of a Redis to which this process listens; `connect` makes an unopened connection without read timeout."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._connection: Any = None
        self._channels: dict[str, _Channel] = {}
        self._running: asyncio.Task[None] | None = None
        self._closed = False

    def listening(self, name: str) -> Listener:
        """A listener for an `async with` block; it hears what is published on the channel once the block has begun.

        Entering raises `StoreUnavailable` if the server does not answer in time or the store was closed, and `WrongStore` if
        the Redis is not the store that this process knows.
        """
        return Listener(self, name)

    async def begin(self, name: str, listener: Listener) -> None:
        """Add a listener; see `listening`."""
        if self._closed:
            raise StoreUnavailable("the store was closed")
        channel = self._channels.get(name)
        is_new = channel is None
        if channel is None:
            channel = self._channels[name] = _Channel()
        channel.listeners.add(listener)
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        if is_new:
            await self._send("SUBSCRIBE", name)
            if self._closed:
                raise StoreUnavailable("the store was closed")
        try:
            async with asyncio.timeout(SOCKET_TIMEOUT_S):
                await asyncio.shield(channel.subscribed)
        except TimeoutError as error:
            raise StoreUnavailable(f"no subscription within {SOCKET_TIMEOUT_S:g} s") from error

    def left(self, name: str, listener: Listener) -> None:
        """Remove a listener."""
        channel = self._channels.get(name)
        if channel is not None and listener in channel.listeners:
            channel.listeners.discard(listener)
            channel.left_at_s = asyncio.get_running_loop().time()

    def hears(self, name: str) -> bool:
        """Whether the channel is subscribed to already."""
        channel = self._channels.get(name)
        return channel is not None and channel.subscribed.done()

    async def close(self) -> None:
        """End all listeners and the connection."""
        self._closed = True
        error = StoreUnavailable("the store was closed")
        for channel in self._channels.values():
            channel.interrupt(error)
            for listener in channel.listeners:
                listener.end(error)
        self._channels.clear()
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _run(self) -> None:
        pauses = Backoff(FIRST_PAUSE_S, 1.0)
        while self._channels:
            try:
                async with translated():
                    await self._attend()
            except Exception as error:  # even a bug of ours must not leave listeners waiting for ever
                if not isinstance(error, HoldfastError):
                    logger.exception("the connection for published messages broke")
                known = error if isinstance(error, HoldfastError) else StoreUnavailable(type(error).__name__)
                for channel in self._channels.values():
                    channel.interrupt(known)
                self._forget(0.0)
                await pauses.sleep()
            else:
                pauses.pause_s = FIRST_PAUSE_S

    async def _attend(self) -> None:
        connection = self._connect()
        minding: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(SOCKET_TIMEOUT_S):
                await connection.connect()
            self._connection = connection
            minding = asyncio.create_task(self._mind())
            await self._send("SUBSCRIBE", *self._channels)
            while self._channels:
                async with asyncio.timeout(SILENT_S):
                    answer = await connection.read_response()
                self._take(answer)
        finally:
            self._connection = None
            if minding is not None:
                minding.cancel()
                await asyncio.gather(minding, return_exceptions=True)
            await connection.disconnect(nowait=True)

    def _take(self, answer: Any) -> None:
        kind, *rest = answer if isinstance(answer, list) else [answer]
        channel = self._channels.get(rest[0].decode()) if rest and isinstance(rest[0], bytes) else None
        if channel is None:
            return
        if kind == b"subscribe" and not channel.subscribed.done():
            channel.subscribed.set_result(None)
            if channel.missed:  # listeners told of the break may have read before messages that came since
                channel.missed = False
                channel.tell(None)
        elif kind == b"message":
            channel.tell(rest[1])

    async def _mind(self) -> None:
        """Ping the connection every `PING_S`, and unsubscribe channels without listeners."""
        while True:
            await asyncio.sleep(PING_S)
            left = self._forget(KEEP_S)
            await self._send("UNSUBSCRIBE", *left)
            await self._send("PING")  # its answer wakes the reader, which ends if no channel is left

    def _forget(self, after_s: float) -> list[str]:
        before_s = asyncio.get_running_loop().time() - after_s
        left = [name for name, one in self._channels.items() if not one.listeners and one.left_at_s <= before_s]
        for name in left:
            del self._channels[name]
        return left

    async def _send(self, command: str, *names: str) -> None:
        """Send a command if there is a connection; the waiting read notices a broken one."""
        connection = self._connection
        if connection is None or not connection.is_connected or not (names or command == "PING"):
            return
        with contextlib.suppress(HoldfastError):
            async with translated(), asyncio.timeout(SOCKET_TIMEOUT_S):
                await connection.send_command(command, *names, check_health=False)
