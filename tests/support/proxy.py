"""A proxy before a Redis server that loses replies."""

import asyncio
import contextlib
import threading
import uuid


class Carrier:
    """What carries bytes both ways between a client and a server.

    `lose` is how many of the next requests that hold `only` are done by the server and never answered: the connection breaks.
    """

    def __init__(self):
        self.lose = 0
        self.only = b""
        self._tasks = set()

    def noted(self, data):
        """Take note of what is sent to the server."""

    def answered(self, data):
        """What the client reads of what the server has answered."""
        return data

    async def _carry(self, reader, writer, upstream_reader, upstream_writer):
        cut = []

        async def forth():
            while data := await reader.read(1 << 20):
                self.noted(data)
                if self.lose and self.only in data:
                    self.lose -= 1
                    cut.append(True)
                upstream_writer.write(data)
                await upstream_writer.drain()

        async def back():
            while data := await upstream_reader.read(1 << 20):
                if cut:  # the server has done it: its answer is here
                    return
                writer.write(self.answered(data))
                await writer.drain()

        tasks = [asyncio.create_task(forth()), asyncio.create_task(back())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class Proxy(Carrier):
    """A unix socket before a server: it counts requests, loses replies on demand and may rewrite them."""

    def __init__(self, server):
        super().__init__()
        self.socket = server.directory / f"proxy-{uuid.uuid4().hex[:8]}.sock"
        self.url = f"unix://{self.socket}"
        self.requests = []
        self.answered_bytes = 0
        self.rewrite = lambda reply: reply
        self._server = server

    async def __aenter__(self):
        self._listening = await asyncio.start_unix_server(self._connected, str(self.socket))
        return self

    async def __aexit__(self, *_):
        self._listening.close()
        await asyncio.sleep(0)  # who was accepted begins
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.socket.unlink(missing_ok=True)

    @contextlib.contextmanager
    def in_background(self):
        """Run it in a thread of its own, for as long as this block lasts."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="proxy", daemon=True)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self.__aenter__(), loop).result()
            yield self
            asyncio.run_coroutine_threadsafe(self.__aexit__(), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def noted(self, data):
        self.requests.append(data)

    def answered(self, data):
        self.answered_bytes += len(data)
        return self.rewrite(data)

    def sent(self, word):
        """How often a word stood in a request."""
        return sum(request.count(word) for request in self.requests)

    async def _connected(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        try:
            upstream_reader, upstream_writer = await asyncio.open_unix_connection(str(self._server.socket))
            try:
                await self._carry(reader, writer, upstream_reader, upstream_writer)
            finally:
                await closed(upstream_writer)
        finally:
            await closed(writer)
            self._tasks.discard(asyncio.current_task())


async def closed(writer):
    """Close a connection, which may be broken."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
