"""Sessions before servers that share a Redis: one dies, another goes on, and whoever signs out has signed out everywhere."""

from contextlib import contextmanager

import httpx
import pytest
from lacking import lacking
from redis_server import RedisServer, binaries
from stack_fixture import eventually
from stores import InMemory

from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway
from holdfast.persistence import AccessScope, RedisStore
from holdfast.server import Authentication

from .conftest import served

HERE = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture(scope="module")
def redis():
    if not binaries():
        lacking("there is no Redis server on this machine")
    with RedisServer() as running:
        yield running


@contextmanager
def server_of(redis):
    """A server over a connection of its own."""
    store = RedisStore(redis.url, namespace="sessions")
    with served(AsyncClient(StackGateway(InMemory(store), timeout_s=30)), Authentication()) as server:
        server.run(store.open())
        yield server
        server.run(store.close())


def status(server, value):
    return httpx.get(f"{server.url}/v1/pending", headers={"Cookie": f"holdfast-{server.port}={value}"}).status_code


def signed_in(server, text):
    found = httpx.post(f"{server.url}/signin", data={"key": text}, headers=HERE)
    assert found.status_code == 303, found.text
    return found.cookies[f"holdfast-{server.port}"]


def test_a_session_outlasts_its_server_and_ends_on_all_of_them(redis):
    with server_of(redis) as first:
        _, text = first.run(first.client.access.create_key("ana", [AccessScope.READ]))
        value = signed_in(first, text)
        assert status(first, value) == 200
    with server_of(redis) as second, server_of(redis) as third:
        assert [status(second, value), status(third, value)] == [200, 200]
        out = httpx.post(
            f"{second.url}/signout", headers=HERE | {"Cookie": f"holdfast-{second.port}={value}"}, follow_redirects=False
        )
        assert out.status_code == 303
        assert status(second, value) == 401
        eventually(lambda: status(third, value) == 401, 20, "the end of a session on another server")


def test_the_revocation_of_a_key_ends_its_sessions_on_every_server(redis):
    with server_of(redis) as first, server_of(redis) as second:
        key, text = first.run(first.client.access.create_key("ana", [AccessScope.READ]))
        value = signed_in(first, text)
        assert [status(first, value), status(second, value)] == [200, 200]
        assert second.run(second.client.access.revoke_key(key.key_id))
        for server in (first, second):
            eventually(lambda server=server: status(server, value) == 401, 20, "the end of a session")
