"""Cancellations of one turn, of what waits, and until no body goes on; and who it was that asked."""

import asyncio

import pytest
from stores import WithActors
from writer import LEASE_MS, Writer, begin, call, start

from holdfast.client import Answer, AsyncClient, Client, InvalidInput, StoreUnavailable, TurnNotFound
from holdfast.client.async_client import acting_for
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Principal, Proof
from holdfast.persistence import MemoryStore

ANA = Principal("ana", roles=["finance"], proof=Proof.OIDC)


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
async def writer(store):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("lookup", "ask"))
    return writer


@pytest.fixture
def client(store, writer):
    return AsyncClient(StackGateway(WithActors(store, writer), timeout_s=30))


async def test_a_certain_turn_is_cancelled_and_none_that_came_later(client):
    conversation = client.conversation("c-1")
    cancelled = await conversation.cancel("t1", request_id="x-1")
    assert (cancelled.turn_id, cancelled.running) == ("t1", ())
    assert (await conversation.cancel("t1", request_id="x-1")).duplicate
    assert (await conversation.cancel("t1")).turn_id is None
    with pytest.raises(TurnNotFound):
        await conversation.cancel("t7")


async def test_who_waits_is_told_when_no_body_goes_on_any_more(client, store, writer):
    (effect_id,) = writer.effect_ids
    await store.claim("c-1", effect_id, incarnation="p-1.x", worker="w", bound_ms=LEASE_MS)
    await store.attest("p-1", LEASE_MS)
    lookup = effect_id.partition("#")[0]

    hasty = await client.conversation("c-1").cancel(wait_s=0.1, request_id="x-1")
    assert hasty.running == (lookup,)
    waiting = asyncio.create_task(client.conversation("c-1").cancel(wait_s=30, request_id="x-1"))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await store.finish("c-1", effect_id, incarnation="p-1.x", outcome=b"it went through")

    async with asyncio.timeout(10):
        cancelled = await waiting
    assert (cancelled.duplicate, cancelled.running) == (True, ())
    assert set(cancelled.calls) == set(hasty.calls)


async def test_nobody_waits_for_the_body_of_a_worker_that_is_gone(client, store, writer):
    (effect_id,) = writer.effect_ids
    await store.claim("c-1", effect_id, incarnation="p-1.x", worker="w", bound_ms=LEASE_MS)
    async with asyncio.timeout(10):
        assert (await client.conversation("c-1").cancel(wait_s=30)).running == ()


async def test_a_wait_that_fails_takes_nothing_back_of_what_is_acknowledged(client, store, monkeypatch):
    async def away(_):
        raise StoreUnavailable("it went away")

    monkeypatch.setattr(store, "abandoned", away)
    cancelled = await client.conversation("c-1").cancel(wait_s=30)
    assert cancelled.turn_id == "t1"
    assert cancelled.running == cancelled.calls != ()


async def test_what_waits_is_cancelled_and_the_rest_goes_on(client):
    conversation = client.conversation("c-1")
    (shown,) = await conversation.pending()
    cancelled = await conversation.cancel_pending("elicitation", "the shop is closed", request_id="x-1")
    assert (cancelled.turn_id, cancelled.calls) == ("t1", (shown.tool_call_id,))
    assert (await conversation.state()).turn_id == "t1"
    assert (await conversation.cancel_pending("approval")).calls == ()


@pytest.mark.parametrize(
    ("asking", "field"),
    [
        (lambda one: one.cancel(7), "turn_id"),
        (lambda one: one.cancel("\ud800"), "turn_id"),
        (lambda one: one.cancel(wait_s=-1), "wait_s"),
        (lambda one: one.cancel(wait_s="long"), "wait_s"),
        (lambda one: one.cancel(wait_s=float("nan")), "wait_s"),
        (lambda one: one.cancel_pending("payment"), "kind"),
        (lambda one: one.cancel_pending(reason=7), "reason"),
        (lambda one: one.cancel_pending(reason="x" * 1025), "reason"),
        (lambda one: one.cancel_pending(request_id=""), "request_id"),
    ],
)
async def test_what_cannot_be_meant_is_refused_by_name_and_nothing_travels(client, asking, field):
    with pytest.raises(InvalidInput) as refused:
        await asking(client.conversation("c-1"))
    assert refused.value.field == field
    assert client.gateway.stack.delivered == []


async def test_the_log_keeps_who_asked(client, store):
    acting = acting_for(client, ANA)
    (shown,) = (await acting.pending()).items
    await shown.resolve(Answer("blue"))
    await acting.conversation("c-1").send("more")
    await client.conversation("c-1").cancel()
    bodies = [event for _, event in await store.read("c-1", after=0)]
    said = {event.kind: event.principal for event in bodies if hasattr(event, "principal")}
    assert said == {"suspension_settled": ANA, "message_accepted": ANA, "turn_cancelled": None}
    assert (await acting.pause(reason="stop")).by == "ana"


@pytest.mark.parametrize("principal", ["ana", None, {"id": "ana"}])
def test_only_a_principal_can_be_acted_as(client, principal):
    with pytest.raises(InvalidInput) as refused:
        client.acting_as(principal)
    assert refused.value.field == "principal"
    with Client.connect(redis_url="unix:///nowhere", ray_address="auto") as blocking, pytest.raises(InvalidInput):
        blocking.acting_as(principal)
