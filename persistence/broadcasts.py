"""Published messages of a Redis, over one connection for all who listen in this process.

Who listens is told of a gap instead of an error: when the connection broke, messages may be lost, so whoever waits for news of
something that is kept reads it anew, and learns then whether the server is gone.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
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


logger = logging.getLogger(__name__)


class Listener:
    """One who listens to a channel."""

    def __init__(self) -> None:
        self._messages: deque[bytes | None] = deque(maxlen=AHEAD)
        self._arrived = asyncio.Event()
        self._error: HoldfastError | None = None

    def tell(self, message: bytes | None) -> None:
        """Have a message wait for the listener; None for a gap."""
        if message is not None or not self._messages or self._messages[-1] is not None:
            full = len(self._messages) == AHEAD
            self._messages.append(message)
            if full:  # what was dropped is a gap
                self._messages[0] = None
        self._arrived.set()

    def end(self, error: HoldfastError) -> None:
        """Have the listener hear no more than what waits for it."""
        self._error = error
        self._arrived.set()

    async def message(self) -> bytes | None:
        """The next message, awaited for as long as it takes; None where messages may be lost.

        Raises:
            StoreUnavailable: The store was closed.
        """
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
        self._closed = False

    def listening(self, name: str) -> "_Listening":
        """A listener to a channel, in a block of `async with`; it hears what is published from when the block begins.

        To begin it raises `StoreUnavailable` where the server does not answer in time or the store was closed, and `WrongStore`
        where the Redis there is not the store that this process has known.
        """
        return _Listening(self, name)

    async def begin(self, name: str, listener: Listener) -> None:
        """Have a listener hear a channel; see `listening`."""
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
        """Have a listener hear a channel no more."""
        channel = self._channels.get(name)
        if channel is not None and listener in channel.listeners:
            channel.listeners.discard(listener)
            channel.left_at_s = asyncio.get_running_loop().time()

    def hears(self, name: str) -> bool:
        """Whether what is published on a channel is received already."""
        channel = self._channels.get(name)
        return channel is not None and channel.subscribed.done()

    async def close(self) -> None:
        """Listen to nothing any more."""
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
        """Keep a connection, until nobody has listened for a while."""
        pauses = Backoff(0.02, 1.0)
        while self._channels:
            try:
                async with translated():
                    await self._attend()
            except Exception as error:  # of another kind only by a mistake of ours: nobody shall wait in vain
                if not isinstance(error, HoldfastError):
                    logger.exception("the connection that hears for this process broke")
                known = error if isinstance(error, HoldfastError) else StoreUnavailable(type(error).__name__)
                for channel in self._channels.values():
                    channel.interrupt(known)
                self._forget(0.0)
                await pauses.sleep()
            else:
                pauses.reset()

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
            if channel.missed:  # what was published since the interruption; who was told of it may have read too early
                channel.missed = False
                channel.tell(None)
        elif kind == b"message":
            channel.tell(rest[1])

    async def _mind(self) -> None:
        """Try the connection now and then, and leave the channels to which nobody listens any more."""
        while True:
            await asyncio.sleep(PING_S)
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
            async with translated(), asyncio.timeout(SOCKET_TIMEOUT_S):
                await connection.send_command(command, *names, check_health=False)


class _Listening:
    """A listener for the length of a block.

    It is no generator: a loop that ends closes all generators at once, those of a block before those that are in the block.
    """

    def __init__(self, broadcasts: Broadcasts, name: str) -> None:
        self._broadcasts = broadcasts
        self._name = name
        self._listener = Listener()

    async def __aenter__(self) -> Listener:
        try:
            await self._broadcasts.begin(self._name, self._listener)
        except BaseException:
            self._broadcasts.left(self._name, self._listener)
            raise
        return self._listener

    async def __aexit__(self, *_: object) -> None:
        self._broadcasts.left(self._name, self._listener)
