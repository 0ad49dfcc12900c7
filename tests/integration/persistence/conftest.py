"""Real Redis servers, and a proxy before them that loses replies."""

import contextlib
import uuid

import pytest
import redis
from lacking import lacking
from proxy import Proxy
from redis_server import RedisServer, binaries

from holdfast.persistence import RedisStore


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


@pytest.fixture
async def proxy(server):
    async with Proxy(server) as running:
        yield running
