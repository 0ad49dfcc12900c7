"""The stores that the suite runs over: in memory, and on every Redis server that this machine has."""

import uuid

import pytest
from lacking import lacking

from holdfast.testing.redis_server import RedisServer, binaries


@pytest.fixture(scope="session", params=sorted(binaries()) or ["none"])
def server(request):
    found = binaries()
    if request.param not in found:
        lacking("there is no Redis server on this machine")
    with RedisServer(found[request.param]) as running:
        yield running


@pytest.fixture
def namespace():
    """A namespace that no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}"
