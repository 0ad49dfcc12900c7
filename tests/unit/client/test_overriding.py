"""Messages with overrides, over the stack: judged by the published agent, and kept with the message."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from hosted import stored
from stores import WithActors
from writer import DESK, Writer, begin, reply, start

from holdfast.agent import Agent, App
from holdfast.cli import session
from holdfast.cli.app import run
from holdfast.cli.errors import ExitCode
from holdfast.cli.session import Reached
from holdfast.client import AsyncClient, ConversationNotFound, InvalidMessage, Overrides
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation.terms.models import ModelSpec
from holdfast.conversation.terms.overrides import Overridable
from holdfast.persistence import AppRecord, MemoryStore

ALLOWED = Overridable(models=(ModelSpec(model="test/large"),), temperature=(0, 1), max_tokens=100)
OPEN = DESK.model_copy(update={"overridable": ALLOWED})


async def published(spec):
    """A conversation whose first turn ran with an agent that allows nothing, and the agent as it is published now."""
    store = await stored(DESK)
    writer = await Writer.of(store, "c-1")
    writer.spec = DESK
    await writer.do(start(spec=DESK), begin(), reply("Hi."))
    await store.put_app(AppRecord(app="shop:app", code="k", agents={"desk": spec.digest}), [spec])
    return store, writer


async def test_the_published_agent_decides_and_the_message_keeps_what_it_was_sent_with():
    store, writer = await published(OPEN)
    conversation = AsyncClient(StackGateway(WithActors(store, writer), timeout_s=10)).conversation("c-1")
    receipt = await conversation.send("more", message_id="m-2", overrides={"model": "test/large", "temperature": 0.5})
    again = await conversation.send("more", message_id="m-2", overrides=Overrides(model="test/large", temperature=0.5))
    assert (again.seq, again.duplicate) == (receipt.seq, True)
    assert writer.events[receipt.seq - 1].overrides == Overrides(model="test/large", temperature=0.5)
    done = await conversation.interrupt("now", overrides={"max_tokens": 100})
    assert writer.events[done.seq - 1].overrides == Overrides(max_tokens=100)


@pytest.mark.parametrize("given", [{"temperature": 1.5}, {"top_p": 0.5}, {"model": "test/model"}, {"max_tokens": 101}], ids=str)
async def test_what_it_does_not_allow_changes_nothing(given):
    store, writer = await published(OPEN)
    conversation, before = AsyncClient(StackGateway(WithActors(store, writer), timeout_s=10)).conversation("c-1"), writer.state
    for asking in (conversation.send("more", overrides=given), conversation.interrupt("more", overrides=given)):
        with pytest.raises(InvalidMessage) as refused:
            await asking
        assert refused.value.field == "overrides"
    assert writer.state == before


async def test_without_a_published_agent_or_a_conversation_they_are_refused():
    store, writer = await published(DESK)
    client = AsyncClient(StackGateway(WithActors(store, writer), timeout_s=10))
    with pytest.raises(InvalidMessage):
        await client.conversation("c-1").send("more", overrides={"temperature": 0.5})
    with pytest.raises(ConversationNotFound):
        await client.conversation("c-9").send("more", overrides={"temperature": 0.5})


def test_the_command_line_sends_them(monkeypatch, capsys):

    store, writer = asyncio.run(published(OPEN))

    @asynccontextmanager
    async def reached(_):
        stack = WithActors(store, writer)
        yield Reached(AsyncClient(StackGateway(stack, timeout_s=10)), stack)

    monkeypatch.setattr(session, "reached", reached)
    given = ["--model", "test/large", "--temperature", "0.5", "--max-tokens", "50"]
    assert run(["send", "c-1", "more", *given]) == ExitCode.DONE
    assert writer.events[-1].overrides == Overrides(model="test/large", temperature=0.5, max_tokens=50)
    assert run(["send", "c-1", "more", "--effort", "low"]) == ExitCode.BAD_INPUT
    assert "reasoning_effort may not be overridden" in capsys.readouterr().err
    assert run(["send", "c-1", "more"]) == ExitCode.DONE
    assert writer.events[-1].overrides is None


async def test_a_first_message_has_them_too():
    desk = Agent(name="desk", overridable=["temperature"])
    stack = WithActors(MemoryStore(), app=App(agents=[desk]))
    client = AsyncClient(StackGateway(stack, timeout_s=10))
    await client.start("desk", "Hello?", conversation_id="c-1", overrides={"temperature": 0.5})
    (first,) = [event for event in stack.writers["c-1"].events if event.kind == "message_accepted"]
    assert first.overrides == Overrides(temperature=0.5)
    with pytest.raises(InvalidMessage):
        await client.start("desk", "Hello?", conversation_id="c-2", overrides={"top_p": 0.5})
    assert "c-2" not in stack.writers
