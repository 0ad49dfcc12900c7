"""The outbox over HTTP: who may see and change it, and who did."""

import logging
from urllib.parse import quote

import pytest
from store_suite.outbox import AUDIT, ids, one_leased, owe

from holdfast.persistence import OutboxState, Verdict
from holdfast.server import create_app

from .conftest import Api


@pytest.fixture
async def api(client):
    asked = Api(create_app(client))
    async with asked.http:
        yield asked


@pytest.fixture
async def path(store):
    """The path of something that was set aside."""
    await owe(store, "c-2", "ended", target=AUDIT)
    await store.acknowledge(await one_leased(store, AUDIT), Verdict.ASIDE, reason="it answers 410")
    (name,) = await ids(store, OutboxState.SET_ASIDE)
    return f"/v1/outbox/{quote(name, safe='')}"


async def bearer(client, **more):
    _, text = await client.access.create_key("ops", ("admin", "read"), **more)
    return {"Authorization": f"Bearer {text}"}


async def test_the_log_names_who_had_something_delivered_again_or_dropped_it(api, client, path, caplog):
    caplog.set_level(logging.INFO)
    headers = await bearer(client)
    for verb, found in (("retry", True), ("drop", True), ("drop", False)):
        assert await api("POST", f"{path}/{verb}", json={}, headers=headers) == {"found": found}
    said = [record.getMessage() for record in caplog.records if record.name == "holdfast.server"]
    assert [line.partition(" 'c-2~")[0] for line in said if "c-2~" in line] == [
        "key:ops has had delivered again",
        "key:ops has dropped",
    ]


async def test_it_is_for_callers_of_all_agents(api, client, path, store):
    headers = await bearer(client, agents=["desk"])
    await api("GET", "/v1/outbox?state=set_aside", 403, headers=headers)
    for verb in ("retry", "drop"):
        await api("POST", f"{path}/{verb}", 403, json={}, headers=headers)
    assert len(await ids(store, OutboxState.SET_ASIDE)) == 1
    assert len((await api("GET", "/v1/outbox?state=set_aside", headers=await bearer(client)))["items"]) == 1
