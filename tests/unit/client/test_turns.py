"""What a client says of turns and messages: where each stands, its reply or error, and what it used."""

import pytest
from stores import InMemory
from writer import Writer, begin, call, cancel, end, fail_model, finish, interrupt, reply, resolve, send, start, wake, withdraw

from holdfast.client import AsyncClient, ConversationNotFound, InvalidMessage, MessageNotFound, TurnNotFound, turns
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Approve, FailureReason, StopReason
from holdfast.persistence import MemoryStore


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def conversation(store):
    return AsyncClient(StackGateway(InMemory(store), timeout_s=30)).conversation("c-1")


async def test_a_turn_says_its_reply_its_message_what_it_used_and_how_long_it_took(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(message_id="m-1"), begin(), call("refund", input_tokens=100, output_tokens=7), now=1_000)
    await writer.do(resolve(Approve()), now=5_000)
    (running,) = await conversation.turns()
    assert (running.status, running.reply, running.ended_at, running.duration_ms) == ("running", None, None, None)

    refund = writer.state.calls[0]
    await writer.do(finish(refund.effect_id), reply("Refunded.", input_tokens=130, output_tokens=3), now=9_000)
    (turn,) = await conversation.turns()

    assert (turn.turn_id, turn.message_id, turn.status, turn.reply) == ("t1", "m-1", "completed", "Refunded.")
    assert (turn.usage.model_calls, turn.usage.input_tokens, turn.usage.output_tokens) == (2, 230, 10)
    assert (turn.started_at, turn.ended_at, turn.duration_ms, turn.attempts) == (1_000, 9_000, 8_000, 1)
    assert await conversation.turn("t1") == turn


@pytest.mark.parametrize("counts", [(None, 7), (7, None), (None, None)])
async def test_the_tokens_of_a_turn_are_not_known_where_those_of_one_answer_are_not(store, conversation, counts):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call("lookup", input_tokens=counts[0], output_tokens=3))
    await writer.do(finish(), reply("Found.", input_tokens=counts[1], output_tokens=4))
    (turn,) = await conversation.turns()
    assert (turn.usage.model_calls, turn.usage.input_tokens, turn.usage.output_tokens) == (2, None, 7)


async def test_turns_that_failed_were_cancelled_or_cut_off_say_so(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), fail_model("too slow", reason=FailureReason.MODEL_TIMEOUT))
    await writer.do(send(), begin(), reply("half a sen", finish_reason="length"))
    await writer.do(send(), begin(), call("ask"), cancel())

    failed, cut, cancelled = await conversation.turns()

    assert (failed.status, failed.error, failed.failed) == ("failed", "too slow", FailureReason.MODEL_TIMEOUT)
    assert (failed.usage.model_calls, failed.usage.input_tokens) == (0, None)
    assert (cut.status, cut.reply, cut.stopped) == ("completed", "half a sen", StopReason.LENGTH)
    assert (cancelled.status, cancelled.reply, cancelled.error) == ("cancelled", None, None)


async def test_a_message_is_queued_running_and_completed_in_turn(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(message_id="m-1"), begin(), send("more", message_id="m-2"), now=1_000)

    first, second = await conversation.message("m-1"), await conversation.message("m-2")
    assert (first.status, first.turn_id, first.attempts, first.accepted_at) == ("running", "t1", 1, 1_000)
    assert (second.status, second.turn_id, second.attempts) == ("queued", None, 0)

    await writer.do(reply("One."), begin(), fail_model("no"))
    first, second = await conversation.message("m-1"), await conversation.message("m-2")
    assert (first.status, first.reply, first.error) == ("completed", "One.", None)
    assert (second.status, second.turn_id, second.reply, second.error) == ("failed", "t2", None, "no")


async def test_what_became_of_a_message_is_found_however_far_its_turn_is_and_read_no_farther(store, conversation, monkeypatch):
    monkeypatch.setattr(turns, "READ_AT_ONCE", 2)
    writer = await Writer.of(store, "c-1")
    await writer.do(start(message_id="m-1"), begin(), send(message_id="m-2"), call("lookup"), finish())
    await writer.do(reply("One."), begin(), reply("Two."), send(message_id="m-3"), begin(), reply("Three."))
    read = []
    inner = store.read

    async def counted(conversation_id, **options):
        read.append(options["after"])
        return await inner(conversation_id, **options)

    monkeypatch.setattr(store, "read", counted)

    assert [(await conversation.message(f"m-{number}")).reply for number in (1, 2, 3)] == ["One.", "Two.", "Three."]
    read.clear()
    await conversation.message("m-1")
    assert max(read) < writer.state.seq - 4
    assert [turn.reply for turn in await conversation.turns()] == ["One.", "Two.", "Three."]


async def test_messages_of_a_conversation_that_ended_were_cancelled_or_dropped(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(message_id="m-1"), begin(), send(message_id="m-2"), end())

    running, queued = await conversation.message("m-1"), await conversation.message("m-2")

    assert (running.status, running.turn_id) == ("cancelled", "t1")
    assert (queued.status, queued.turn_id, queued.attempts) == ("dropped", None, 0)


async def test_what_is_not_there_is_a_typed_error(store, conversation):
    for read in (conversation.turns(), conversation.turn("t1"), conversation.message("m-1")):
        with pytest.raises(ConversationNotFound):
            await read
    await (await Writer.of(store, "c-1")).do(start(message_id="m-1"))

    with pytest.raises(TurnNotFound) as no_turn:
        await conversation.turn("t1")
    with pytest.raises(MessageNotFound) as no_message:
        await conversation.message("m-2")
    assert (no_turn.value.turn_id, no_message.value.message_id) == ("t1", "m-2")
    for bad in ("", "a b", "x" * 201, None, 7, "\ud800"):
        with pytest.raises(InvalidMessage):
            await conversation.message(bad)


async def test_a_message_says_that_it_joined_was_withdrawn_or_superseded_and_when_it_is_due(store, conversation):
    writer = await Writer.of(store, "c-1")
    await writer.do(start(message_id="m-1"), begin(), call("lookup"), now=1_000)
    await writer.do(send("steer", message_id="s-1", when="steer"), send("later", message_id="l-1", due=9_000), now=2_000)
    await writer.do(send("no", message_id="q-1"), send("gone", message_id="q-2"), now=2_000)
    await writer.do(withdraw("q-1", writer.state.queue[0].seq), now=2_000)
    statuses = {name: (await conversation.message(name)).status for name in ("s-1", "l-1", "q-1", "q-2")}
    assert statuses == {"s-1": "queued", "l-1": "delayed", "q-1": "withdrawn", "q-2": "queued"}
    assert [(one.message_id, one.steers, one.due_at) for one in await conversation.queue()] == [
        ("s-1", True, None),
        ("q-2", False, None),
        ("l-1", False, 9_000),
    ]

    await writer.do(finish(), now=3_000)
    joined = await conversation.message("s-1")
    assert (joined.status, joined.turn_id, joined.joined_at) == ("running", "t1", writer.state.seq)
    await writer.do(interrupt("stop", "i-1"), now=4_000)

    joined, gone, late = [await conversation.message(name) for name in ("s-1", "q-2", "l-1")]
    assert (joined.status, joined.turn_id) == ("cancelled", "t1")
    assert (gone.status, gone.superseded_by) == ("superseded", "i-1")
    assert (late.status, late.due_at) == ("delayed", 9_000)
    await writer.do(wake(), now=9_000)
    assert (await conversation.message("l-1")).status == "queued"
    (turn,) = await conversation.turns()
    assert (turn.message_id, turn.joined) == ("m-1", ("s-1",))
