"""The store in memory."""

import pytest
from store_suite import StoreConformance
from toy_cipher import ToyCipher

from holdfast.persistence import MemoryStore


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    async def stores(self):
        store = MemoryStore()
        await store.open()
        yield store, store
        await store.close()


class TestMemoryStoreWithACipher(StoreConformance):
    @pytest.fixture
    async def stores(self):
        store = MemoryStore(cipher=ToyCipher())
        await store.open()
        yield store, store
        await store.close()
