"""A conversation with two calls, one that runs after an approval and one that a person answers, and what must come of it."""

import asyncio
import contextlib
import json

from fault_stack import WITHIN_S
from oracle import Oracle
from stack_fixture import eventually

from holdfast.client import Approve, Status
from holdfast.persistence import RedisStore
from holdfast.testing import call, calls

APP = "fault_app:app"


@contextlib.asynccontextmanager
async def watched(stack):
    """An oracle over a stack's store."""
    store = RedisStore(stack.redis_url)
    await store.open()
    try:
        yield Oracle(store, stack.runs)
    finally:
        await store.close()


async def waiting_for_two(stack, client, name, tool="pay_by_key"):
    """A conversation that waits for an approval and for an answer."""
    text = stack.scenarios.add(name, calls(call(tool, {}), call("ask", {"question": "?"})), "Done.")
    conversation = await client.start("till", text, conversation_id=name)
    return conversation, *(await conversation.wait(timeout_s=WITHIN_S)).pending


async def at_work(stack, client, oracle, name):
    """A conversation whose call runs for as long as its gate is closed, and which waits for an answer beside."""
    conversation, pay, ask = await waiting_for_two(stack, client, name)
    await pay.resolve(Approve())
    await asyncio.to_thread(eventually, lambda: oracle.bodies(conversation.id), WITHIN_S)
    return conversation, ask


async def ended(oracle, client, conversation_id):
    """The conversation has ended as it would have."""
    conversation = client.conversation(conversation_id)
    state = await conversation.wait(timeout_s=WITHIN_S)
    while state.status is not Status.IDLE:
        state = await conversation.wait(after=state.seq, timeout_s=WITHIN_S)
    assert state.reply == "Done."
    await oracle.at_rest(conversation_id)
    found = [json.loads(message["content"]) for message in await conversation.messages() if message["role"] == "tool"]
    assert found == [{"ok": True, "result": "pay_by_key is done"}, {"ok": True, "result": False}]
