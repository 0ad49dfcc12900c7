"""Conversations whose turns need no actor, and programs that send them messages, in tests of faults."""

import asyncio
import uuid

from fault_stack import WITHIN_S

from holdfast.client import Status


async def done(conversation, reply="Done."):
    """Wait until a conversation rests with this reply."""
    state = await conversation.wait(timeout_s=WITHIN_S)
    while state.running:
        state = await conversation.wait(after=state.seq, timeout_s=WITHIN_S)
    assert (state.status, state.reply) == (Status.IDLE, reply)


async def warm(stack, client):
    """Have a turn done, so that the client knows a worker that lives: the last test may have ended one."""
    name = f"warm-{uuid.uuid4().hex}"
    await done(await client.start("till", stack.scenarios.add(name, "Done."), conversation_id=name))


async def resting(stack, client, name, *answers):
    """A conversation that has done a turn, and that nobody owns."""
    await warm(stack, client)
    conversation = await client.start("till", stack.scenarios.add(name, "Done.", *answers), conversation_id=name)
    await done(conversation)
    return conversation


def sending(stack, name, text, *options):
    """A process that sends one message, whose id is its text."""
    return stack.python("-m", "holdfast.cli", "send", name, text, "--message-id", text, *options)


async def ended(process):
    """The exit status of a process, once it has ended by itself."""
    await asyncio.to_thread(process.communicate)
    return process.returncode


async def messages(store, name):
    """The ids of the messages that were accepted after the first turn."""
    return [event.message_id for _, event in await store.read(name, after=3) if event.kind == "message_accepted"]


def asked(stack, name):
    """How often the model was asked for a conversation's next answer."""
    return sum(name in str(request.body) for request in stack.model.requests)
