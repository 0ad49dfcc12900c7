"""What a client says of a summary that was asked for: whether it stands, and why not."""

import pytest
from stores import InMemory
from writer import Writer, begin, call, cancel, compact, end, interrupt, reply, send, start, summarize

from holdfast.client import AsyncClient, ConversationNotFound
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import SummaryFailure
from holdfast.errors import InvalidInput, SummaryNotFound
from holdfast.persistence import MemoryStore


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def conversation(store):
    return AsyncClient(StackGateway(InMemory(store), timeout_s=30)).conversation("c-1")


@pytest.fixture
async def writer(store):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), reply("Hello."))
    return writer


async def test_one_that_stands_says_what_it_saves(conversation, writer):
    await writer.do(compact("x-1"), now=9_000)
    assert (await conversation.summary("x-1")).status == "waiting"
    await writer.do(begin(), summarize(boundary=3, tokens_before=900, tokens_after=90))
    found = await conversation.summary("x-1")
    assert (found.status, found.messages, found.tokens_before, found.tokens_after) == ("compacted", 1, 900, 90)
    assert (found.request_id, found.accepted_at, found.reason, found.error) == ("x-1", 9_000, None, None)


@pytest.mark.parametrize(
    ("steps", "status"),
    [
        ((begin(), summarize(failed=SummaryFailure.REFUSED, error="no")), "failed"),
        ((cancel(),), "cancelled"),
        ((begin(), cancel()), "cancelled"),
        ((begin(), interrupt("stop"), begin(), reply("I stop.")), "superseded"),
        ((begin(), end()), "dropped"),
        ((interrupt("stop"), begin(), reply("I stop.")), "superseded"),
        ((end(),), "dropped"),
    ],
)
async def test_one_that_does_not_says_why(conversation, writer, steps, status):
    await writer.do(compact("x-1"), *steps)
    found = await conversation.summary("x-1")
    assert (found.status, found.messages) == (status, None)
    assert found.reason == ("refused" if status == "failed" else None)


async def test_a_turn_that_is_cancelled_before_leaves_it_waiting(conversation, writer):
    await writer.do(send(), begin(), call("lookup"))
    writer.spec = None  # its agent is not known, and so is not refused
    await writer.do(compact("x-1"), cancel())
    assert (await conversation.summary("x-1")).status == "waiting"


async def test_turns_and_what_they_used_are_without_it(conversation, writer):
    await writer.do(compact("x-1"), begin(), summarize(boundary=3, input_tokens=70, output_tokens=7))
    await writer.do(send(), begin(), reply("It is 7.", input_tokens=30, output_tokens=3))
    first, second = await conversation.turns()
    assert (first.turn_id, second.turn_id) == ("t1", "t2")
    assert second.usage.input_tokens == 30
    assert (await conversation.usage()).total.input_tokens is None  # that of the first answer is not known
    page = await conversation.turns_page(limit=1)
    assert [one.turn_id for one in page.items] == ["t1"]


async def test_what_was_not_asked_for_is_not_found(conversation, writer):
    await writer.do(interrupt(request_id="x-2"))
    for asked in ("x-1", "x-2"):
        with pytest.raises(SummaryNotFound):
            await conversation.summary(asked)
    with pytest.raises(InvalidInput, match="request_id"):
        await conversation.summary("no\nid")


async def test_while_it_goes_on_the_conversation_shows_its_last_turn(conversation, writer):
    await writer.do(compact("x-1"), begin())
    found = await conversation.state()
    assert (found.status, found.turn_id, found.reply) == ("generating", "t1", "Hello.")
    assert (await conversation.turn(found.turn_id)).reply == "Hello."


async def test_there_is_none_of_a_conversation_that_never_began(store):
    nowhere = AsyncClient(StackGateway(InMemory(store), timeout_s=30)).conversation("c-2")
    with pytest.raises(ConversationNotFound):
        await nowhere.summary("x-1")
