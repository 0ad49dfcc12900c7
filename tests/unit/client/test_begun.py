"""Waiting for a conversation that this client has just started: what it wrote is not read again."""

import asyncio

import pytest
from stores import InMemory
from writer import Writer, begin, call, fail_model, reply, resolve, send, start

from holdfast.client import Answer, AsyncClient, stack_events
from holdfast.client.stack_gateway import StackGateway
from holdfast.persistence import MemoryStore

READS = ("load", "quarantine", "late", "problem", "_within", "_entries", "_last_notes", "_rows")


class Counted(MemoryStore):
    """A store that notes which reads are asked of it."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def __getattribute__(self, name):
        if name in READS:
            self.asked.append(name)
        return super().__getattribute__(name)


@pytest.fixture
def store():
    return Counted()


@pytest.fixture
async def writer(store):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin())
    return writer


@pytest.fixture
def stack(store, writer):
    stack = InMemory(store)
    stack.begun["c-1"] = writer.state
    store.asked.clear()
    return stack


@pytest.fixture
def conversation(stack):
    return AsyncClient(StackGateway(stack, timeout_s=30)).conversation("c-1")


async def waited(conversation, writer, *steps):
    waiting = asyncio.create_task(conversation.wait(timeout_s=100))
    for step in steps:
        await asyncio.sleep(0)
        await writer.do(step)
    return await waiting


async def test_an_answer_is_shown_from_what_was_read_while_waiting(store, stack, conversation, writer):
    state = await waited(conversation, writer, reply("Hi."))

    assert store.asked == []
    assert state.reply == "Hi."
    assert stack.begun == {}
    assert state == await conversation.state()


async def test_a_question_is_shown_from_what_was_read_while_waiting_but_who_asked(store, conversation, writer):
    state = await waited(conversation, writer, call("ask", "ask"))
    assert store.asked == ["_within", "_entries"]
    assert len(state.pending) == 2
    assert state == await conversation.state()


@pytest.mark.parametrize(("step", "reads"), [(reply("Hi."), ["late"]), (call("ask"), ["late", "_within", "_entries"])])
async def test_what_follows_a_decision_is_shown_from_what_was_read_while_waiting(
    store, stack, conversation, writer, step, reads
):
    await writer.do(call("ask"), resolve(Answer("blue")))
    stack.begun.clear()
    waiting = asyncio.create_task(conversation.wait(timeout_s=30))
    for _ in range(50):  # it has read, and waits
        await asyncio.sleep(0)
    store.asked.clear()
    await writer.do(step)
    state = await waiting
    assert store.asked == reads
    assert state == await conversation.state()


@pytest.mark.parametrize("steps", [[fail_model("no key")], [call("lookup"), None]])
async def test_another_end_is_read_as_ever(store, conversation, writer, steps):
    if steps[-1] is None:
        await writer.do(steps[0])
        state = await conversation.wait(timeout_s=0.05)
        assert state.running
    else:
        state = await waited(conversation, writer, *steps)
    assert "quarantine" in store.asked
    assert state == await conversation.state()


async def test_the_present_state_is_read_from_the_store(store, conversation, writer):
    await writer.do(reply("Hi."))
    assert (await conversation.state()).reply == "Hi."
    assert "load" in store.asked


async def test_a_log_longer_than_a_page_is_followed_to_its_end(conversation, writer, monkeypatch):
    monkeypatch.setattr(stack_events, "READ_AT_ONCE", 2)
    await writer.do(reply("Hi."))
    await writer.do(send("and then?"), begin(), reply("Then."))
    state = await conversation.wait(timeout_s=30)
    assert (state.reply, state.seq) == ("Then.", writer.state.seq)


async def test_a_turn_that_is_not_the_first_is_shown_with_what_came_late_of_those_before(store, stack, conversation, writer):
    await writer.do(reply("Hi."))
    await writer.do(send("and then?"), begin())
    stack.begun["c-1"] = writer.state
    store.asked.clear()
    state = await waited(conversation, writer, reply("Then."))
    assert "load" not in store.asked
    assert "late" in store.asked
    assert state == await conversation.state()


async def test_a_conversation_that_rested_as_soon_as_it_began_is_read_anew(store, stack, conversation, writer):
    await writer.do(fail_model("no key"))
    stack.begun["c-1"] = writer.state
    await writer.do(send("and now?"), begin(), reply("Now."))
    assert (await conversation.wait(timeout_s=30)).reply == "Now."


@pytest.mark.parametrize(("waits", "block_ms"), [(0, 5_000), (4_999, 50_000), (100_000, 60_000)])
async def test_of_thousands_of_waits_each_looks_more_seldom(stack, store, conversation, writer, monkeypatch, waits, block_ms):
    asked, read = [], store.read

    async def blocked(conversation_id, *, block_ms, **more):
        asked.append(block_ms)
        return await read(conversation_id, block_ms=block_ms, **more)

    monkeypatch.setattr(store, "read", blocked)
    stack.waits = waits
    await waited(conversation, writer, reply("Hi."))
    assert asked == [block_ms]
    assert stack.waits == waits
