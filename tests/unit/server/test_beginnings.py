"""The beginning of a suspension's id over HTTP: it finds a call to look at, and decides nothing."""

import httpx
import pytest

from holdfast.server import create_app

from .conftest import HERE, Api

BODIES = {"resolve": {"decision": "deny", "reason": "no"}, "assign": {}, "comment": {"text": "look"}}


@pytest.fixture
async def api(client):
    asked = Api(create_app(client))
    asked.http = httpx.AsyncClient(transport=httpx.ASGITransport(asked.app), base_url=HERE)
    async with asked.http:
        yield asked


async def headers_of(client, **limits):
    _, text = await client.access.create_key("ana", ["read", "decide", "start"], **limits)
    return {"Authorization": f"Bearer {text}"}


async def test_a_call_is_shown_by_the_beginning_of_its_suspension(api, client, waiting):
    headers = await headers_of(client)
    (call, *_) = (await api("GET", "/v1/pending", headers=headers))["items"]

    shown = await api("GET", f"/v1/pending/{call['suspension_id'][:12]}", headers=headers)

    assert (shown["suspension_id"], shown["conversation_id"]) == (call["suspension_id"], "c-1")


@pytest.mark.parametrize("action", BODIES)
async def test_nothing_is_decided_or_noted_by_the_beginning_of_a_suspension(api, client, stack, waiting, action):
    headers = await headers_of(client)
    (call, *_) = (await api("GET", "/v1/pending", headers=headers))["items"]
    whole, before = call["suspension_id"], stack.writers["c-1"].state

    refused = await api("POST", f"/v1/pending/{whole[:12]}/{action}", 422, json=BODIES[action], headers=headers)

    assert (refused["code"], refused["field"]) == ("invalid_input", "suspension_id")
    assert f"{whole[:12]} is only the beginning of {whole}" in refused["detail"]
    assert (stack.delivered, stack.writers["c-1"].state) == ([], before)
    await api("POST", f"/v1/pending/{whole}/{action}", json=BODIES[action], headers=headers)


@pytest.mark.parametrize("action", ["", *(f"/{name}" for name in BODIES)])
async def test_a_beginning_says_nothing_of_calls_to_a_caller_who_is_limited_to_agents(api, client, waiting, action):
    """What begins alike would be named, and so would the whole id of what begins so, of whichever agent."""
    headers = await headers_of(client, agents=["bar"])
    (call, *_) = (await api("GET", "/v1/pending", headers=await headers_of(client)))["items"]
    method, body = ("POST", {"json": BODIES[action[1:]]}) if action else ("GET", {})

    for beginning in (call["suspension_id"][:12], call["suspension_id"][:6], "s-404404"):
        told = await api(method, f"/v1/pending/{beginning}{action}", 409, headers=headers, **body)
        assert (told["code"], told["reason"], call["suspension_id"] in f"{told}") == ("stale_call", "unknown", False)
