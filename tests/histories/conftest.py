"""The stores that histories are loaded into: in memory, and on every Redis server that this machine has."""

import contextlib
import functools
import uuid

import pytest
from lacking import lacking
from redis_server import RedisServer, binaries

from holdfast.persistence import MemoryStore, RedisStore

STORES = ("memory", *(sorted(binaries()) or ["redis"]))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Every step of every version is gone on from in one of the stores, which take turns; before a release in each of them."""
    for item in items:
        given = item.callspec.params if hasattr(item, "callspec") and item.path.parent.name == "histories" else {}
        if {"store", "step"} <= given.keys() and STORES[given["step"].number % len(STORES)] != given["store"]:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def servers():
    with contextlib.ExitStack() as running:
        yield functools.cache(lambda name: running.enter_context(RedisServer(binaries()[name])))


@pytest.fixture(params=STORES)
async def store(request, servers):
    if request.param == "memory":
        store = MemoryStore()
    elif request.param in binaries():
        store = RedisStore(servers(request.param).url, namespace=f"t{uuid.uuid4().hex[:12]}")
    else:
        lacking("there is no Redis server on this machine")
    await store.open()
    yield store
    await store.close()
