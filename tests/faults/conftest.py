"""What all fault tests share: a stack of its own for each module, its traps, a client, and an oracle."""

import pytest
from fault_stack import WITHIN_S, trapped_stack
from lacking import lacking
from oracle import Oracle
from redis_server import RedisServer, binaries
from stack_fixture import open_gate

from holdfast.client import AsyncClient
from holdfast.persistence import RedisStore


@pytest.fixture(scope="module")
def server():
    """A Redis that keeps what it has acknowledged, and can be killed."""
    if not binaries():
        lacking("there is no Redis server on this machine")
    with RedisServer(appendonly="yes", appendfsync="always") as running:
        yield running


@pytest.fixture(scope="module")
def trapped():
    with trapped_stack() as found:
        yield found


@pytest.fixture
def stack(trapped):
    stack = trapped[0]
    yield stack
    for log in list(stack.runs.iterdir()):  # what a test that failed has left at work
        if log.suffix != ".gate":
            open_gate(stack, log.name)


@pytest.fixture
def traps(trapped):
    folder = trapped[1]
    yield folder
    folder.clear()


@pytest.fixture
async def client(stack):
    async with AsyncClient.connect("fault_app:app", timeout_s=WITHIN_S) as connected:
        yield connected


@pytest.fixture
async def store(stack):
    opened = RedisStore(stack.redis_url)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def oracle(stack, store):
    return Oracle(store, stack.runs)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """All of them are slow, for they wait for leases to run out and for Ray to notice deaths; `gate` excepts some."""
    for item in items:
        if "/faults/" in str(item.path).replace("\\", "/") and item.get_closest_marker("gate") is None:
            item.add_marker(pytest.mark.slow)
