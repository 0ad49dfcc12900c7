"""Who is told what of a server that is not ready: everybody which part, an administrator why, and the log as well."""

import logging

import httpx
import pytest
from asgi_transport import AsgiTransport
from stores import WithActors

from holdfast.client import AsyncClient, ClusterStopped, ClusterUnavailable
from holdfast.client.http_address import Address
from holdfast.client.http_gateway import HttpGateway
from holdfast.client.stack_gateway import StackGateway
from holdfast.errors import NewerRecord, StoreUnavailable, WrongStore
from holdfast.persistence import MemoryStore
from holdfast.server import create_app, readiness

from .conftest import HERE, Api

WHERE = "10.7.7.7:6379"


@pytest.fixture
def store():
    return MemoryStore(clock=iter(range(1_700_000_000_000, 1_800_000_000_000, 20_000)).__next__)


@pytest.fixture
async def client(store):
    await store.bind("cluster-1", WHERE, 15_000)
    return AsyncClient(StackGateway(WithActors(store), timeout_s=10))


@pytest.fixture
def api(client):
    return Api(create_app(client))


async def key_of(client, *scopes, **options):
    return {"Authorization": f"Bearer {(await client.access.create_key('ana', scopes, **options))[1]}"}


async def test_a_stranger_is_told_which_part_is_not_ready_and_neither_where_it_is_nor_why(api, client, caplog):
    strangers = [
        {},
        {"Authorization": "Bearer hf_0123456789ab_" + "0" * 64},
        await key_of(client, "read", "start", "decide"),
        await key_of(client, "admin", agents=["desk"]),
    ]
    for headers in strangers:
        told = await api("GET", "/ready", 503, headers=headers)
        assert (told["code"], told["title"], told["status"]) == ("cluster_unavailable", "ClusterUnavailable", 503)
        assert (told["redis"], told["cluster"]) == ("ok", "failed")
        assert "10.7.7.7" not in str(told)
        assert "silent" not in str(told)
    assert caplog.text.count(WHERE) == 1, "the log has the reason, once for a while"


async def test_an_administrator_is_told_why(api, client):
    told = await api("GET", "/ready", 503, headers=await key_of(client, "admin"))
    assert WHERE in told["why"]
    assert WHERE in told["detail"]
    assert told["cluster"] == "failed"


@pytest.mark.parametrize(
    ("error", "parts"),
    [
        (StoreUnavailable("redis.internal:6379 refused it"), ("failed", "unknown")),
        (WrongStore("internal-1", "internal-2"), ("failed", "unknown")),
        (NewerRecord("internal", 9, 5), ("failed", "unknown")),
        (ClusterUnavailable("internal"), ("ok", "failed")),
        (ClusterStopped("internal"), ("ok", "failed")),
    ],
)
async def test_a_client_over_http_raises_the_same_class_and_asks_once(client, monkeypatch, error, parts):
    asked = []

    async def failing():
        asked.append(error)
        raise error

    monkeypatch.setattr(client, "ready", failing)
    app = create_app(client)
    over_http = AsyncClient(HttpGateway(Address(HERE), timeout_s=10, transport=AsgiTransport(app)))
    with pytest.raises(type(error)) as raised:
        await over_http.ready()
    assert type(raised.value) is type(error)
    assert "internal" not in str(raised.value)
    assert len(asked) == 1
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HERE) as http:
        found = await http.get("/ready")
    assert (found.json()["redis"], found.json()["cluster"]) == parts
    assert "internal" not in found.text
    assert found.headers.get("retry-after") == (None if isinstance(error, WrongStore | NewerRecord) else "1")


async def test_a_reason_is_logged_again_after_a_while(client, caplog):
    caplog.set_level(logging.WARNING)
    now = [0.0]
    looked = readiness.Readiness(client, clock=lambda: now[0])
    for at in (0.0, 1.0, readiness.LOGGED_S, readiness.LOGGED_S + 1):
        now[0] = at
        with pytest.raises(ClusterUnavailable):
            await looked.check()
    assert len(caplog.records) == 2


async def test_a_stranger_whose_key_cannot_be_looked_up_is_not_told_why_either(api, store, monkeypatch, caplog):
    async def gone(_):
        raise StoreUnavailable("Error 111 connecting to 10.7.7.7:6379")

    monkeypatch.setattr(store, "api_key", gone)
    told = await api("GET", "/v1/pending", 503, headers={"Authorization": "Bearer hf_0123456789ab_" + "0" * 64})
    assert (told["code"], told["redis"]) == ("store_unavailable", "failed")
    assert "10.7.7.7" not in str(told)
    assert "10.7.7.7" in caplog.text
