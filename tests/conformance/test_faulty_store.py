"""A faulty store whose policy never strikes is the store it wraps."""

import pytest
from store_suite import StoreConformance

from holdfast.persistence import MemoryStore
from holdfast.testing import FaultyStore


class TestFaultyStore(StoreConformance):
    @pytest.fixture
    async def stores(self):
        inner = MemoryStore()
        return FaultyStore(inner, lambda _method, _number: None), inner
