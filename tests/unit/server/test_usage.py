"""What answers used, over HTTP: for whom, and in which pages."""

import pytest
from writer import DESK, Writer, begin, call, finish, reply, start

from holdfast.persistence import AppRecord
from holdfast.server import create_app

from .conftest import Api

CLERK = DESK.model_copy(update={"name": "clerk"})
USED = {"input_tokens": 100, "output_tokens": 10, "cost_usd": 0.25}


@pytest.fixture
async def two(store):
    """A conversation of each of two agents."""
    agents = {spec.name: spec.digest for spec in (DESK, CLERK)}
    await store.put_app(AppRecord(app="shop:app", code="k", agents=agents), [DESK, CLERK])
    for spec in (DESK, CLERK):
        writer = await Writer.of(store, f"c-{spec.name}")
        writer.spec = spec
        await writer.do(start(agent=spec.name, spec=spec), begin(), reply("Hi.", **USED))


async def test_one_conversation_and_pages_of_all(api, two):
    one = await api("GET", "/v1/conversations/c-desk/usage?by=agent")
    assert [(row["name"], row["usage"]["cost_usd"], row["usage"]["model_ms"]) for row in one["rows"]] == [("desk", 0.25, None)]
    first = await api("GET", "/v1/usage?by=agent&limit=1")
    second = await api("GET", f"/v1/usage?by=agent&limit=1&after={first['next']}")
    assert {row["name"] for page in (first, second) for row in page["rows"]} == {"desk", "clerk"}
    assert second["next"] is None
    assert (await api("GET", "/v1/usage"))["total"]["cost_usd"] == 0.5
    for bad in ("by=hour", "limit=0", "limit=1001", "after=x", "status=lost"):
        await api("GET", f"/v1/usage?{bad}", 422)
    await api("GET", "/v1/conversations/nobody/usage", 404)


async def test_a_key_for_some_agents_reads_no_others(client, two):
    api = Api(create_app(client))
    _, text = await client.access.create_key("ana", ["read"], agents=["clerk"])
    headers = {"Authorization": f"Bearer {text}"}
    for path in ("/v1/usage", "/v1/usage?agent=desk"):
        await api("GET", path, 403, headers=headers)
    await api("GET", "/v1/conversations/c-desk/usage", 404, headers=headers)
    assert (await api("GET", "/v1/usage?agent=clerk", headers=headers))["conversations"] == 1


async def test_the_page_of_a_conversation_sums_up_what_its_answers_said_and_no_cost_that_one_does_not_know(api, store, two):
    page = (await api.http.get("/conversations/c-desk")).text
    assert "100 tokens sent, 10 received, about 0.2500 USD at list prices." in page
    writer = await Writer.of(store, "c-more")
    await writer.do(
        start(), begin(), call("lookup", cached_tokens=64, **USED), finish(), reply("Hi.", **USED | {"cost_usd": None})
    )
    page = (await api.http.get("/conversations/c-more")).text
    assert "200 tokens sent (64 of them cached), 20 received." in page
    assert "USD" not in page
