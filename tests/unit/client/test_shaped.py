"""The reply of an agent that gives it a shape, as clients see it: text and value, in each form and over HTTP."""

import pytest
from stores import InMemory
from writer import DESK, Writer, begin, call, reply, send, start

from holdfast.client import AsyncClient, ConversationState
from holdfast.client.last_words import last_words
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import FailureReason
from holdfast.conversation.records.proposed_call import ProposedCall
from holdfast.conversation.terms.reply import FINAL_ANSWER
from holdfast.persistence import MemoryStore

SHAPED = DESK.model_copy(update={"reply": '{"type":"object","properties":{"order":{"type":"integer"}},"required":["order"]}'})
FITS = '{"order":7}'
GIVEN = ProposedCall(tool_call_id="call_final", name=FINAL_ANSWER, arguments=FITS)


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def conversation(store):
    return AsyncClient(StackGateway(InMemory(store), timeout_s=30)).conversation("c-1")


async def written(store, *steps):
    writer = await Writer.of(store, "c-1")
    writer.spec = SHAPED
    await writer.do(start(message_id="m-1"), begin(), *steps)
    return writer


@pytest.mark.parametrize("step", [reply(FITS), call(GIVEN)], ids=["text", "call"])
async def test_the_state_has_the_text_and_the_object_in_either_form(store, conversation, step):
    await written(store, reply("Seven."), step)
    state = await conversation.state()
    assert (state.reply, state.value, state.pending, state.running) == (FITS, {"order": 7}, [], [])
    assert (await conversation.turns())[0].reply == (await conversation.message("m-1")).reply == FITS
    assert await last_words(conversation) == FITS
    shown = ConversationState.model_validate(state.model_dump(mode="json", exclude={"pending"}) | {"pending": []})
    assert shown.value == {"order": 7}


async def test_while_the_next_turn_goes_on_the_value_is_that_of_the_last_and_a_failed_one_has_none(store, conversation):
    writer = await written(store, reply(FITS), send("again"), begin(), reply("Seven."))
    assert (await conversation.state()).value == {"order": 7}
    await writer.do(reply("Seven!"), reply("Seven?"))
    state = await conversation.state()
    assert (state.value, state.reply, state.failed) == (None, None, FailureReason.INVALID_REPLY)


async def test_a_text_without_a_shape_is_no_value(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), reply(FITS))
    state = await conversation.state()
    assert (state.reply, state.value) == (FITS, None)


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_what_the_model_is_told_of_a_text_stands_in_pages_of_any_size(store, conversation, limit):
    await written(store, reply("Seven."), call(GIVEN.model_copy(update={"arguments": "{}"})), reply(FITS))
    messages = await conversation.messages()
    assert [one["role"] for one in messages] == ["user", "assistant", "user", "assistant", "tool", "assistant"]
    assert [place for place, one in enumerate(messages) if one.get("misfit")] == [2]
    forwards, after = [], None
    while True:
        page = await conversation.messages_page(limit=limit, after=after)
        forwards, after = [*forwards, *page.items], page.next
        if after is None:
            break
    backwards, before = [], "end"
    while before is not None:
        page = await conversation.messages_page(limit=limit, before=before)
        backwards, before = [*page.items, *backwards], page.previous
    assert forwards == backwards == messages
