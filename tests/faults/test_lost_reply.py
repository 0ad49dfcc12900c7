"""Replies of Redis that get lost after a real write: whoever repeats the write, it happens once."""

import asyncio
import contextlib
import json

import pytest
from fault_stack import WITHIN_S, at_ease, trapped_stack, true
from proxy import Proxy
from stack_fixture import open_gate

from holdfast.client import Answer, Approve, Status
from holdfast.testing import call, calls

FOR_EVER = 1_000_000


@pytest.fixture(scope="module")
def proxy(server):
    with Proxy(server).in_background() as running:
        yield running


@pytest.fixture(scope="module")
def trapped(proxy):
    """Everybody's way to Redis leads through the proxy."""
    with trapped_stack(HOLDFAST_REDIS_URL=proxy.url) as found:
        yield found


@pytest.fixture(autouse=True)
def honest(proxy):
    yield
    proxy.lose, proxy.only = 0, b""


def losing(proxy, count, word):
    """The next replies to requests that hold a word get lost."""
    proxy.lose, proxy.only = 0, word.encode()
    proxy.lose = count


async def paying(stack, client, name):
    text = stack.scenarios.add(name, calls(call("pay", {})), "Done.")
    conversation = await client.start("till", text, conversation_id=name)
    (pay,) = (await conversation.wait(timeout_s=WITHIN_S)).pending
    open_gate(stack, conversation.id)
    return conversation, pay


async def paid(oracle, conversation):
    """The conversation has ended as it would have; its calls ran once."""
    state = await conversation.wait(timeout_s=WITHIN_S)
    while state.reply != "Done.":
        state = await conversation.wait(after=state.seq, timeout_s=WITHIN_S)
    await oracle.at_rest(conversation.id)
    results = [json.loads(message["content"]) for message in await conversation.messages() if message["role"] == "tool"]
    assert results == [{"ok": True, "result": "pay is done"}]
    assert len(oracle.bodies(conversation.id)) == 1


@pytest.mark.parametrize("lost", [1, 3])
async def test_a_decision_whose_append_was_not_answered_is_in_the_log_once(stack, client, oracle, proxy, lost):
    conversation, pay = await paying(stack, client, f"append-{lost}")
    losing(proxy, lost, f"the-decision-{lost}")
    receipt = await client.resolve(pay, Approve(), decision_id=f"the-decision-{lost}")
    assert proxy.lose == 0
    await paid(oracle, conversation)
    await oracle.acknowledged(conversation.id, receipt, by=f"the-decision-{lost}")


async def written(oracle, conversation, decision_id):
    return any(getattr(event, "decision_id", None) == decision_id for event in await oracle.events(conversation.id))


async def taken_over(store, conversation, epoch):
    return (await store.owner(conversation.id)).epoch > epoch


async def test_a_decision_whose_append_is_not_answered_for_long_has_its_actor_begin_anew(stack, client, store, oracle, proxy):
    conversation, pay = await paying(stack, client, "unknown")
    losing(proxy, FOR_EVER, "the-unknown-one")
    deciding = asyncio.create_task(client.resolve(pay, Approve(), decision_id="the-unknown-one"))
    await true(lambda: written(oracle, conversation, "the-unknown-one"))
    epoch = (await store.owner(conversation.id)).epoch
    await true(lambda: taken_over(store, conversation, epoch))  # it gave up waiting, and took over from itself
    proxy.lose = 0
    receipt = await deciding
    assert receipt.duplicate  # it was there, and the repetition was told so
    await paid(oracle, conversation)
    await oracle.acknowledged(conversation.id, receipt, by="the-unknown-one")


async def test_a_message_whose_append_was_not_answered_starts_one_conversation(stack, client, oracle, proxy):
    losing(proxy, 2, "start:begun-once")
    text = stack.scenarios.add("begun-once", "Done.")
    conversation = await client.start("till", text, conversation_id="begun-once")
    assert proxy.lose == 0
    state = await conversation.wait(timeout_s=WITHIN_S)
    assert (state.status, state.reply) == (Status.IDLE, "Done.")
    await oracle.acknowledged(conversation.id, conversation.receipt, by="start:begun-once")
    await oracle.at_rest(conversation.id)


@pytest.mark.parametrize(
    ("operation", "word"),
    [
        ("acquire", "\r\nasked\r\n"),  # why the conversation is taken over
        ("claim", ":worker:"),  # the name of who runs the body
        ("finish", "pay is done"),  # the outcome, in its record and in the log
    ],
)
async def test_an_operation_whose_reply_was_lost_happens_once(stack, client, store, oracle, proxy, operation, word):
    conversation, pay = await paying(stack, client, f"lost-{operation}")
    await at_ease(store)
    losing(proxy, 3, word)
    await pay.resolve(Approve())
    await paid(oracle, conversation)
    assert proxy.lose == 0


async def test_conversations_end_as_they_would_have_while_replies_get_lost_all_the_time(stack, client, oracle, proxy):
    name = stack.scenarios.add("storm", calls(call("pay", {}), call("ask", {"question": "?"})), "Done.")

    async def held(number):
        conversation = await client.start("till", name, conversation_id=f"storm-{number}")
        open_gate(stack, conversation.id)
        receipts = {}
        state = await conversation.wait(timeout_s=WITHIN_S)
        for waiting in state.pending:
            decision = Approve() if waiting.tool == "pay" else Answer(number)
            by = f"{conversation.id}-{waiting.tool}"
            receipts[by] = await client.resolve(waiting, decision, decision_id=by)
        while state.reply != "Done.":
            state = await conversation.wait(after=state.seq, timeout_s=WITHIN_S)
        return conversation, receipts

    async def storm():
        while True:
            losing(proxy, 1, "EVAL")
            await asyncio.sleep(0.1)

    raging = asyncio.create_task(storm())
    try:
        ended = await asyncio.gather(*map(held, range(8)))
    finally:
        raging.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await raging
        proxy.lose = 0
    for conversation, receipts in ended:
        for by, receipt in receipts.items():
            await oracle.acknowledged(conversation.id, receipt, by=by)
        await oracle.at_rest(conversation.id)
        assert len(oracle.bodies(conversation.id)) == 1
