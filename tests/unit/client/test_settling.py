"""Pending calls by the id of their suspension alone, and decisions about them; the agents that a client can start."""

import pytest
from stores import InMemory, WithActors
from writer import Writer, begin, call, start

from holdfast.agent import Agent, App, tool
from holdfast.client import (
    Answer,
    Approve,
    AsyncClient,
    ConfigurationError,
    ConversationNotFound,
    Deny,
    InvalidConversationId,
    InvalidDecision,
    InvalidInput,
    StaleCall,
)
from holdfast.client.stack_gateway import StackGateway
from holdfast.persistence import MemoryStore


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
async def client(store):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(("refund", '{"order": 7}'), "ask", prompt="Refund 7?"))
    return AsyncClient(StackGateway(WithActors(store, writer), timeout_s=30))


async def refund_of(client):
    return next(one for one in (await client.pending()).items if one.tool == "refund")


@pytest.mark.parametrize("conversation_id", [None, "c-1"])
async def test_a_pending_call_is_found_by_its_suspension(client, conversation_id):
    shown = await refund_of(client)

    assert await client.pending_call(shown.suspension_id, conversation_id=conversation_id) == shown


async def test_a_call_is_found_by_the_beginning_of_its_suspension_and_decided_by_the_whole(client, store):
    shown = await refund_of(client)
    before = await store.load("c-1")
    beginning = shown.suspension_id[:12]

    assert await client.pending_call(beginning) == shown
    with pytest.raises(InvalidInput, match=f"suspension_id: {beginning} is only the beginning of {shown.suspension_id}"):
        await client.resolve(beginning, Approve())

    assert await store.load("c-1") == before
    assert (await client.resolve(await client.pending_call(beginning), Approve())).settled


async def test_a_decision_by_suspension_is_recorded_and_its_repetition_has_the_same_receipt(client):
    shown = await refund_of(client)

    receipt = await client.resolve(shown.suspension_id, Approve(), decision_id="d-1")
    again = await client.resolve(shown.suspension_id, Approve(), decision_id="d-1", conversation_id="c-1")

    assert (receipt.duplicate, again.duplicate, again.seq) == (False, True, receipt.seq)
    with pytest.raises(InvalidDecision):
        await client.resolve(shown.suspension_id, Deny("no"), decision_id="d-1", conversation_id="c-1")


async def test_what_is_settled_says_by_what_where_the_conversation_is_named(client):
    shown = await refund_of(client)
    receipt = await client.resolve(shown.suspension_id, Deny("no"), decision_id="d-1")

    for attempt in (
        client.resolve(shown.suspension_id, Approve(), conversation_id="c-1"),
        client.resolve(shown.suspension_id, Approve(), conversation_id="c-1", decision_id="d-2"),
        client.pending_call(shown.suspension_id, conversation_id="c-1"),
    ):
        with pytest.raises(StaleCall) as stale:
            await attempt
        found = stale.value
        assert (found.tool_call_id, found.reason, found.settled_by) == (shown.tool_call_id, "already_resolved", "deny")
        assert found.settled_at == receipt.accepted_at
    for conversation_id, suspension_id in ((None, shown.suspension_id), ("c-1", "s-none"), (None, "\ud800")):
        with pytest.raises(StaleCall) as stale:
            await client.resolve(suspension_id, Approve(), conversation_id=conversation_id, decision_id="d-1")
        assert (stale.value.reason, stale.value.settled_by) == ("unknown", None)


async def test_what_cannot_be_a_place_is_refused(client):
    with pytest.raises(InvalidInput):
        await client.pending_call(7)
    with pytest.raises(InvalidConversationId):
        await client.pending_call("s-1", conversation_id="a b")
    with pytest.raises(ConversationNotFound):
        await client.resolve("s-1", Answer(1), conversation_id="c-2")


async def test_the_agents_of_the_app_are_listed_with_their_tools_and_without_their_instructions(store):
    @tool(approval="required")
    def refund(order: str) -> str:
        """Refund an order."""
        return order

    app = App(agents=[Agent(name="desk", instructions="A secret.", tools=[refund]), Agent(name="till")])
    (desk, till) = await AsyncClient(StackGateway(InMemory(store, app), timeout_s=30)).agents()

    (shown,) = desk.tools
    assert (desk.name, till.name, till.tools) == ("desk", "till", ())
    assert (shown.name, shown.description, shown.approval) == ("refund", "Refund an order.", "required")
    assert shown.parameters["required"] == ["order"]
    assert "secret" not in repr(desk)


async def test_a_client_without_an_app_cannot_list_agents(store):
    with pytest.raises(ConfigurationError):
        await AsyncClient(StackGateway(InMemory(store), timeout_s=30)).agents()
