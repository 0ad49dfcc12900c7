"""Both clients over a real Redis: what became of turns and messages, and pending calls by the id of their suspension."""

import asyncio

import pytest
from writer import Writer, begin, call, reply, resolve, send, start

from holdfast.client import AsyncClient, Client, MessageNotFound, StaleCall
from holdfast.conversation import Deny


@pytest.fixture
def server(own_server):
    """A server that a client does not warn of."""
    return own_server


@pytest.fixture
async def written(store):
    """A conversation with a turn that is over, one that waits for a person, and a message that waits for that."""
    writer = await Writer.of(store, "c-1")
    await writer.do(start(message_id="m-1"), begin(), reply("One.", input_tokens=5, output_tokens=2))
    await writer.do(send(message_id="m-2"), begin(), call(("refund", '{"order": 7}')), send(message_id="m-3"))
    return writer


async def test_turns_and_messages_are_read_alike_by_both_clients(server, namespace, written):
    def blocking():
        with Client.connect(redis_url=server.url, namespace=namespace) as client:
            conversation = client.conversation("c-1")
            messages = [conversation.message(f"m-{number}") for number in (1, 2, 3)]
            with pytest.raises(MessageNotFound):
                conversation.message("m-4")
            return conversation.turns(), conversation.turn("t1"), messages

    async with AsyncClient.connect(redis_url=server.url, namespace=namespace) as client:
        conversation = client.conversation("c-1")
        turns = await conversation.turns()
        messages = [await conversation.message(f"m-{number}") for number in (1, 2, 3)]

    assert await asyncio.to_thread(blocking) == (turns, turns[0], messages)
    assert [(turn.status, turn.reply, turn.usage.input_tokens) for turn in turns] == [
        ("completed", "One.", 5),
        ("running", None, None),
    ]
    assert [message.status for message in messages] == ["completed", "running", "queued"]


async def test_a_suspension_is_found_by_its_id_while_it_is_open_and_with_its_conversation_afterwards(
    server, namespace, written
):
    (suspension_id,) = written.suspension_ids

    def blocking(**place):
        with Client.connect(redis_url=server.url, namespace=namespace) as client:
            return client.pending_call(suspension_id, **place)

    async with AsyncClient.connect(redis_url=server.url, namespace=namespace) as client:
        found = await client.pending_call(suspension_id)
        assert (found.conversation_id, found.arguments) == ("c-1", {"order": 7})
        shown = await asyncio.to_thread(blocking, conversation_id="c-1")
        assert shown.to_dict() == found.to_dict()

        await written.do(resolve(Deny("no"), suspension_id=suspension_id))
        with pytest.raises(StaleCall) as stale:
            await client.pending_call(suspension_id, conversation_id="c-1")
        assert (stale.value.reason, stale.value.settled_by) == ("already_resolved", "deny")
        with pytest.raises(StaleCall) as stale:
            await client.pending_call(suspension_id)
        assert stale.value.reason == "unknown"
