"""Real Redis servers, and a proxy before them that loses replies."""

import asyncio
import contextlib
import uuid

import pytest
import redis
from lacking import lacking

from holdfast.persistence import RedisStore
from holdfast.testing.redis_server import RedisServer, binaries


@pytest.fixture(scope="session")
def server():
    """A server that all tests share, each in a namespace of its own."""
    if not binaries():
        lacking("there is no Redis server on this machine")
    with RedisServer() as running:
        yield running


@pytest.fixture
def own_server():
    """A server for one test alone, which may stop, fill or spoil it. What it acknowledges is on the disk."""
    if not binaries():
        lacking("there is no Redis server on this machine")
    with RedisServer(appendonly="yes", appendfsync="always") as running:
        yield running


@pytest.fixture
def namespace():
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def store(server, namespace):
    opened = RedisStore(server.url, namespace=namespace)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def own_store(own_server, namespace):
    opened = RedisStore(own_server.url, namespace=namespace, retry_s=0.1)
    await opened.open()
    yield opened
    await opened.close()


class Raw:
    """The server as an operator sees it."""

    def __init__(self, server, namespace):
        self.redis = redis.Redis(unix_socket_path=str(server.socket))
        self.namespace = namespace

    def every_key(self):
        """Every key of the namespace."""
        return sorted(self.redis.scan_iter(f"{{{self.namespace}:*", count=1000))

    def contents(self):
        """Every key of the namespace with its bytes; of a hash the pairs, which a server may reorder by itself."""
        return {
            key: self.redis.hgetall(key) if self.redis.type(key) == b"hash" else self.redis.dump(key)
            for key in self.every_key()
        }

    @contextlib.contextmanager
    def unchanged(self):
        """What happens inside changes no byte."""
        before = self.contents()
        assert before
        yield
        assert self.contents() == before


@pytest.fixture
def raw(server, namespace):
    opened = Raw(server, namespace)
    yield opened
    opened.redis.close()


@pytest.fixture
def own_raw(own_server, namespace):
    opened = Raw(own_server, namespace)
    yield opened
    opened.redis.close()


class Proxy:
    """A unix socket before a server: it counts requests, loses replies on demand and may rewrite them.

    `lose` is how many of the next requests that hold `only` are done by the server and never answered: the connection breaks.
    """

    def __init__(self, server):
        self.socket = server.directory / f"proxy-{uuid.uuid4().hex[:8]}.sock"
        self.url = f"unix://{self.socket}"
        self.requests = []
        self.answered_bytes = 0
        self.lose = 0
        self.only = b""
        self.rewrite = lambda reply: reply
        self._server = server
        self._tasks = set()

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
                await _closed(upstream_writer)
        finally:
            await _closed(writer)
            self._tasks.discard(asyncio.current_task())

    async def _carry(self, reader, writer, upstream_reader, upstream_writer):
        cut = []

        async def forth():
            while data := await reader.read(1 << 20):
                self.requests.append(data)
                if self.lose and self.only in data:
                    self.lose -= 1
                    cut.append(True)
                upstream_writer.write(data)
                await upstream_writer.drain()

        async def back():
            while data := await upstream_reader.read(1 << 20):
                if cut:  # the server has done it: its answer is here
                    return
                self.answered_bytes += len(data)
                writer.write(self.rewrite(data))
                await writer.drain()

        tasks = [asyncio.create_task(forth()), asyncio.create_task(back())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _closed(writer):
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@pytest.fixture
async def proxy(server):
    async with Proxy(server) as running:
        yield running
