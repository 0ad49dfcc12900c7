"""Whose the places of a server are: what pages hold stops no other page's users, and nobody who operates."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from writer import DESK, Writer, begin, call, start

from holdfast.server import Bounds, create_app
from holdfast.server.slots import Share, Slots

from .conftest import Api

PLACES = 32
MAKER = ["read", "start"]


@pytest.fixture
async def api(client, store):
    for number in range(6):
        writer = await Writer.of(store, f"c-{number}")
        writer.spec = DESK
        await writer.do(start(message_id=f"m-{number}"), begin(), call("ask"))
    opened = Api(create_app(client, bounds=Bounds(requests=PLACES, streams=PLACES)))
    async with opened.http:
        yield opened


async def key(client, name, *scopes):
    _, text = await client.access.create_key(name, scopes)
    return {"Authorization": f"Bearer {text}"}


async def page(api, maker, conversation_id, principal):
    body = {"conversation_id": conversation_id, "scopes": ["read"], "principal": principal}
    token = (await api("POST", "/v1/page-tokens", 201, json=body, headers=maker))["token"]
    return {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def polling(api, *askers, tries=8):
    """How many long polls are held of those that each of these callers and conversations tries so many of."""
    asked = [
        asyncio.create_task(api.http.get(f"/v1/conversations/{name}?wait_s=60&after=1000", headers=headers))
        for headers, name in askers
        for _ in range(tries)
    ]
    held = api.app.state.serving.requests._held
    async with asyncio.timeout(20):
        while held["others"] + sum(task.done() for task in asked) < len(asked):
            await asyncio.sleep(0.01)
    assert {task.result().json()["code"] for task in asked if task.done()} <= {"too_many_requests"}
    yield held["others"]
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


async def test_four_page_tokens_hold_one_conversations_share_and_operators_are_served(api, client):
    maker, operator = await key(client, "shop", *MAKER), await key(client, "ana", "read", "decide")
    pages = [(await page(api, maker, "c-0", f"guest-{number}"), "c-0") for number in range(4)]
    async with polling(api, pages[0]) as held:
        assert held == PLACES // 16
    async with polling(api, *pages) as held:
        assert held == PLACES // 8
        await api("GET", "/v1/pending", headers=operator)
        await api("GET", "/v1/conversations/c-1", headers=await page(api, maker, "c-1", "other"))


async def test_the_pages_of_one_maker_leave_places_to_those_of_another(api, client):
    maker, other = await key(client, "shop", *MAKER), await key(client, "bank", *MAKER)
    pages = [
        (await page(api, maker, f"c-{number}", f"guest-{number}-{guest}"), f"c-{number}")
        for number in range(5)
        for guest in range(2)
    ]
    async with polling(api, *pages, tries=2) as held:
        assert held == PLACES // 2
        await api("GET", "/v1/conversations/c-5", headers=await page(api, other, "c-5", "guest"))
        await api("GET", "/v1/conversations", headers=maker)


async def test_all_together_who_do_not_operate_leave_operators_their_part(api, client):
    operator = await key(client, "ana", "read", "decide")
    readers = [(await key(client, f"reader-{number}", "read"), "c-0") for number in range(4)]
    async with polling(api, *readers) as held:
        assert held == PLACES * 3 // 4
        refused = await api("GET", "/v1/conversations/c-0", 429, headers=readers[0][0])
        assert refused["code"] == "too_many_requests"
        await api("GET", "/v1/pending", headers=operator)


async def test_streams_have_the_same_shares(api, client):
    maker, operator = await key(client, "shop", *MAKER), await key(client, "ana", "read", "decide")
    path = "/v1/conversations/c-0/events"
    pages = [(await page(api, maker, "c-0", f"guest-{number}"))["Authorization"] for number in range(5)]
    opened = [api.stream("GET", path, authorization=one) for one in pages[:4]]
    try:
        for stream in opened:
            assert (await stream.__aenter__()).status == 200
        refused = await api("GET", path, 429, headers={"Authorization": pages[4]})
        assert refused["detail"] == "the pages of this conversation have 4 event streams, and no more at once"
        async with api.stream("GET", path, authorization=operator["Authorization"]) as stream:
            assert stream.status == 200
    finally:
        for stream in opened:
            await stream.__aexit__(None, None, None)


def test_a_place_that_is_given_back_counts_in_no_share():
    slots, share = Slots(4, code="full", what="places", retry_s=1), Share("ana", 1 / 2)
    with slots.share(share), slots.share(share), pytest.raises(Exception, match="you have 2 places"), slots.share(share):
        pass
    assert not slots._held
