"""A TCP proxy before a server: it cuts connections, refuses new ones for a while, and loses answers on demand."""

import asyncio
import contextlib


class TcpProxy:
    """A port of loopback before another one.

    `lose` is how many of the next requests that hold `only` are passed on and never answered: the connection breaks. While
    `away`, connections are closed as soon as they are made, and those that stood are cut.
    """

    def __init__(self, upstream):
        self.upstream = upstream
        self.lose = 0
        self.only = b""
        self._sent = []
        self._away = False
        self._tasks = set()

    async def __aenter__(self):
        self._listening = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._listening.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_):
        self._listening.close()
        await self.cut()

    @property
    def away(self):
        """Whether nothing is passed on."""
        return self._away

    def requests(self, word):
        """How often a word stood in what was sent to the server."""
        return sum(data.count(word) for data in self._sent)

    async def go(self):
        """Cut all connections, and pass nothing on until `come`."""
        self._away = True
        await self.cut()

    def come(self):
        """Pass on again."""
        self._away = False

    async def cut(self):
        """Cut all connections that stand."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            if not self._away:
                await self._carry(reader, writer)
        except OSError:  # there is nobody behind it
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _carry(self, reader, writer):
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self.upstream)
        lost = []

        async def forth():
            while data := await reader.read(1 << 16):
                self._sent.append(data)
                if self.lose and self.only in data:
                    self.lose -= 1
                    lost.append(True)
                upstream_writer.write(data)
                await upstream_writer.drain()

        async def back():
            while data := await upstream_reader.read(1 << 16):
                if lost:  # the server has done it: its answer is here
                    return
                writer.write(data)
                await writer.drain()

        tasks = [asyncio.create_task(forth()), asyncio.create_task(back())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            upstream_writer.close()
            with contextlib.suppress(OSError):
                await upstream_writer.wait_closed()
