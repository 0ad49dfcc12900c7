"""The trace context of whoever calls a client goes with each command, also through the blocking client's thread."""

import pytest
from spans import Spans
from stores import WithActors

from holdfast import traces
from holdfast.agent import Agent, App
from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway
from holdfast.persistence import MemoryStore
from holdfast.work_context import traceparent_of


@pytest.fixture
def stack():
    return WithActors(MemoryStore(), app=App(agents=[Agent(name="desk")]))


async def messages(store):
    return [event.traceparent for _, event in await store.read("c-1", after=0) if event.kind == "message_accepted"]


async def test_a_command_has_the_context_of_the_current_span_and_none_without_one(stack, monkeypatch):
    client = AsyncClient(StackGateway(stack, timeout_s=10))
    with Spans().collected(monkeypatch), traces.during(traces.begin("mine", {}, parent=None)) as span:
        conversation = await client.start("desk", "Hello", conversation_id="c-1")
    await conversation.send("And?")

    assert await messages(await stack.store()) == [traceparent_of(span), None]
