"""The store on Redis, once for each server on this machine."""

import pytest

from holdfast.persistence import RedisStore
from holdfast.testing.conformance import StoreConformance


class TestRedisStore(StoreConformance):
    @pytest.fixture
    async def stores(self, server, namespace):
        store, other = RedisStore(server.url, namespace=namespace), RedisStore(server.url, namespace=namespace)
        await store.open()
        await other.open()
        yield store, other
        await store.close()
        await other.close()
