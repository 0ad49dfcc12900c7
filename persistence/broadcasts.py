"""Published messages of a Redis, over one connection for all who listen in this process.

Who listens is told of a gap instead of an error: when the connection broke, messages may be lost, so whoever waits for news of
something that is kept reads it anew, and learns then whether the server is gone.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from holdfast.backoff import Backoff
from holdfast.errors import HoldfastError, StoreUnavailable

from .redis_connection import SOCKET_TIMEOUT_S, translated

KEEP_S = 10.0
"""For how long a channel to which nobody listens stays subscribed to, in seconds: mostly somebody listens again at once."""
PING_S = 5.0
"""How often the connection is tried, in seconds."""
SILENT_S = 15.0
"""After how many seconds a connection on which nothing comes is given up."""
AHEAD = 1000
"""How many messages wait for a listener; of those who do not fit, the oldest are dropped."""


class Listener:
    """One who listens to a channel."""

    def __init__(self) -> None:
        self._messages: deque[bytes | None] = deque(maxlen=AHEAD)
        self._arrived = asyncio.Event()

    def tell(self, message: bytes | None) -> None:
        """Have a message wait for the listener; None for a gap."""
        if message is not None or not self._messages or self._messages[-1] is not None:
            self._messages.append(message)
        self._arrived.set()

    async def message(self) -> bytes | None:
        """The next message, awaited for as long as it takes; None where messages may be lost."""
        while not self._messages:
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
        """Tell all who listen, or want to, that the connection broke."""
        if not self.subscribed.done():
            self.subscribed.set_exception(error)
            self.subscribed.exception()  # it is seen, though nobody may wait any more
        self.subscribed = asyncio.get_running_loop().create_future()
        self.missed = True
        self.tell(None)

    def tell(self, message: bytes | None) -> None:
        """Tell all who listen."""
        for listener in self.listeners:
            listener.tell(message)


class Broadcasts:
    """The channels of a Redis to which this process listens.

    Args:
        connect: Makes a connection, not yet opened, whose reads wait without end.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._connection: Any = None
        self._channels: dict[str, _Channel] = {}
        self._running: asyncio.Task[None] | None = None
        self._heard_at_s = 0.0
        self._closed = False

    @asynccontextmanager
    async def listening(self, name: str) -> AsyncGenerator[Listener, None]:
        """A listener to a channel, which hears what is published from the moment on at which the block begins.

        Raises:
            StoreUnavailable: The server does not answer in time, or the store was closed.
            WrongStore: The Redis there is not the store that this process has known.
        """
        if self._closed:
            raise StoreUnavailable("the store was closed")
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = _Channel()
            await self._send("SUBSCRIBE", name)
        listener = Listener()
        channel.listeners.add(listener)
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        try:
            try:
                async with asyncio.timeout(SOCKET_TIMEOUT_S):
                    await asyncio.shield(channel.subscribed)
            except TimeoutError as error:
                raise StoreUnavailable(f"no subscription within {SOCKET_TIMEOUT_S:g} s") from error
            yield listener
        finally:
            channel.listeners.discard(listener)
            channel.left_at_s = asyncio.get_running_loop().time()

    def hears(self, name: str) -> bool:
        """Whether what is published on a channel is received already."""
        channel = self._channels.get(name)
        return channel is not None and channel.subscribed.done()

    async def close(self) -> None:
        """Listen to nothing any more."""
        self._closed = True
        self._channels.clear()
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _run(self) -> None:
        """Keep a connection, until nobody has listened for a while."""
        pauses = Backoff(0.02, 1.0)
        while self._channels:
            try:
                async with translated():
                    await self._attend()
            except HoldfastError as error:
                for channel in self._channels.values():
                    channel.interrupt(error)
                self._forget(0.0)
                await pauses.sleep()
            else:
                pauses.reset()

    async def _attend(self) -> None:
        connection = self._connect()
        loop = asyncio.get_running_loop()
        minding: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(SOCKET_TIMEOUT_S):
                await connection.connect()
            self._connection, self._heard_at_s = connection, loop.time()
            minding = asyncio.create_task(self._mind(connection))
            if self._channels:
                await connection.send_command("SUBSCRIBE", *self._channels)
            while self._channels:
                self._take(await connection.read_response())
                self._heard_at_s = loop.time()
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
            if channel.missed:  # what was published since the interruption; who was told of it may have read too early
                channel.missed = False
                channel.tell(None)
        elif kind == b"message":
            channel.tell(rest[1])

    async def _mind(self, connection: Any) -> None:
        """Try the connection now and then, and leave the channels to which nobody listens any more."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(PING_S)
            if loop.time() - self._heard_at_s > SILENT_S:
                await connection.disconnect(nowait=True)  # the read that waits on it fails
                return
            left = self._forget(KEEP_S)
            await self._send("UNSUBSCRIBE", *left)
            await self._send("PING")  # its answer wakes the reader, which ends where no channel is left

    def _forget(self, after_s: float) -> list[str]:
        """Forget the channels to which nobody has listened for so long, and name them."""
        before_s = asyncio.get_running_loop().time() - after_s
        left = [name for name, one in self._channels.items() if not one.listeners and one.left_at_s <= before_s]
        for name in left:
            del self._channels[name]
        return left

    async def _send(self, command: str, *names: str) -> None:
        """Send a command where there is a connection; one that is broken is seen by the read that waits on it."""
        connection = self._connection
        if connection is None or not connection.is_connected or not (names or command == "PING"):
            return
        with contextlib.suppress(HoldfastError):
            async with translated():
                await connection.send_command(command, *names)
