"""A faulty store whose policy never strikes is the store it wraps."""

import pytest

from holdfast.persistence import MemoryStore
from holdfast.testing import FaultyStore
from holdfast.testing.conformance import StoreConformance


class TestFaultyStore(StoreConformance):
    @pytest.fixture
    async def stores(self):
        inner = MemoryStore()
        return FaultyStore(inner, lambda _method, _number: None), inner
