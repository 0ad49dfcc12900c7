"""Messages while a turn goes on or waits, on the real stack and over HTTP."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from server_process import serving
from stack_fixture import client_of, eventually, open_gate, runs_of

from holdfast.client import AsyncClient, ConversationBusy, MessageStatus, NotQueued, Status, When
from holdfast.testing import call

WITHIN_S = 120

pytestmark = pytest.mark.gate


@pytest.fixture(params=["stack", "http"])
async def client(stack, request):
    name = f"input-{request.node.name[5:25].strip('-_')}-{request.param}"
    if request.param == "stack":
        async with client_of(name, timeout_s=90) as connected:
            yield connected
        return
    async with serving(stack, "--namespace", name) as server, AsyncClient.connect(url=server.url, timeout_s=90) as connected:
        yield connected


def texts(messages):
    return [message["content"] for message in messages if message["role"] == "user"]


async def busy(stack, client, name, *answers):
    """A conversation whose tool runs until its gate opens, and which then gives these answers."""
    text = stack.scenarios.add(name, call("slow", {}), *answers)
    conversation = await client.start("support", text, conversation_id=name)
    await asyncio.to_thread(eventually, lambda: runs_of(stack, name), WITHIN_S, "the run")
    return conversation, text


async def test_a_steered_message_joins_the_turn_once_its_tool_has_ended(stack, client):
    name = f"steer-{id(client)}"
    conversation, text = await busy(stack, client, name, "Bonn it is.")
    receipt = await conversation.send("look in Bonn", when="steer", message_id="s-1", origin="agent")
    (waiting,) = await conversation.queue()
    assert (waiting.message_id, waiting.steers, waiting.origin, waiting.status) == ("s-1", True, "agent", "queued")
    with pytest.raises(ConversationBusy):
        await conversation.send("now?", when=When.REJECT)

    open_gate(stack, name)

    state = await conversation.wait(after=receipt.seq, timeout_s=WITHIN_S)
    assert (state.status, state.reply) == (Status.IDLE, "Bonn it is.")
    messages = await conversation.messages()
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "user", "assistant"]
    assert texts(messages) == [text, "look in Bonn"]
    became = await conversation.message("s-1")
    assert (became.status, became.turn_id, became.reply) == (MessageStatus.COMPLETED, "t1", "Bonn it is.")
    assert became.joined_at is not None
    (turn,) = await conversation.turns()
    assert turn.joined == ("s-1",)


async def test_an_interruption_begins_at_once_with_its_own_message(stack, client):
    name = f"interrupt-{id(client)}"
    conversation, text = await busy(stack, client, name, "Stopped, and done.", "Once more.")
    await conversation.send("queued", message_id="q-1")

    done = await conversation.interrupt("stop", request_id="i-1")

    assert (done.turn_id, done.superseded, done.epoch, len(done.cancelled)) == ("t1", ("q-1",), 1, 1)
    assert (await conversation.interrupt("stop", request_id="i-1")).duplicate
    state = await conversation.wait(after=done.seq, timeout_s=WITHIN_S)
    assert state.reply == "Stopped, and done."
    gone = await conversation.message("q-1")
    assert (gone.status, gone.superseded_by) == (MessageStatus.SUPERSEDED, "i-1")
    assert texts(await conversation.messages()) == [text, "stop"]
    open_gate(stack, name)
    sent = await conversation.send("and now this", when="interrupt", message_id="i-2")
    assert (await conversation.wait(after=sent.seq, timeout_s=WITHIN_S)).reply == "Once more."


async def test_a_delayed_message_is_answered_once_its_time_has_come_and_a_withdrawn_one_never(stack, client):
    name = f"later-{id(client)}"
    conversation = await client.start("support", stack.scenarios.add(name, "Hello.", "Now it is time."), conversation_id=name)
    await conversation.wait(timeout_s=WITHIN_S)
    at = datetime.now(UTC) + timedelta(seconds=3)
    sent = await conversation.send("soon", at=at, message_id="l-1", origin="schedule", priority=3)
    await conversation.send("never", at=at + timedelta(hours=5), message_id="l-2")
    await conversation.send("sooner", at=at + timedelta(hours=9), message_id="l-3")

    waiting = {one.message_id: one for one in await conversation.queue()}
    assert (waiting["l-1"].status, waiting["l-1"].priority, waiting["l-1"].due_at) == (
        *(MessageStatus.DELAYED, 3),
        int(at.timestamp() * 1000),
    )
    assert (await conversation.state()).status is Status.IDLE
    assert (await conversation.message("l-1")).status is MessageStatus.DELAYED
    moved = await conversation.reschedule("l-3", at=at + timedelta(hours=1), request_id="y-1")
    assert (await conversation.reschedule("l-3", at=at + timedelta(hours=1), request_id="y-1")).seq == moved.seq
    await conversation.withdraw("l-2")
    assert (await conversation.message("l-2")).status is MessageStatus.WITHDRAWN
    assert [one.message_id for one in await conversation.queue()] == ["l-1", "l-3"]
    with pytest.raises(NotQueued):
        await conversation.withdraw("l-2")

    async with asyncio.timeout(WITHIN_S):
        while (became := await conversation.message("l-1")).status is not MessageStatus.COMPLETED:
            await asyncio.sleep(0.1)
    assert became.reply == "Now it is time."
    turn = await conversation.turn(became.turn_id)
    assert turn.started_at >= int(at.timestamp() * 1000)
    assert sent.seq < moved.seq
    assert [one.message_id for one in await conversation.queue()] == ["l-3"]
