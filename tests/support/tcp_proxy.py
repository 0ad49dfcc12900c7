"""A TCP proxy before a server: it cuts connections, refuses new ones for a while, and loses answers on demand."""

import asyncio

from proxy import Carrier, closed


class TcpProxy(Carrier):
    """A port of loopback before another one.

    While `away`, connections are closed as soon as they are made, and those that stood are cut.
    """

    def __init__(self, upstream):
        super().__init__()
        self.upstream = upstream
        self._sent = []
        self._away = False

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

    def noted(self, data):
        self._sent.append(data)

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
                upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self.upstream)
                try:
                    await self._carry(reader, writer, upstream_reader, upstream_writer)
                finally:
                    await closed(upstream_writer)
        except OSError:  # there is nobody behind it
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()
