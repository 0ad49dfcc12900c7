"""Conversations that are summarised, in tests of faults."""

from as_guests import done
from fault_stack import WITHIN_S, at_ease


async def summarising(stack, client, name, arm, *, asked=True, store=None):
    """A conversation whose second turn begins with a summary of the first one, and the receipt of that turn's message.

    `arm` is called once the model is `asked` for the summary, and holds it, else before the message is sent. With a `store` it
    is called once no other conversation is hosted.
    """
    conversation = await client.start("writer", f"{stack.scenarios.add(name, 'Done.')} {'z' * 3900}", conversation_id=name)
    await done(conversation)
    if not asked:
        arm()
        return conversation, await conversation.send("go on", message_id="m-2")
    stack.model.hold(times=1)
    try:
        receipt = await conversation.send("go on", message_id="m-2")
        await stack.model.held(1, WITHIN_S)
        if store is not None:
            await at_ease(store, name)
        arm()
    finally:
        stack.model.release()
    return conversation, receipt


def summaries(stack, name):
    """How often the model was asked for a summary of a conversation."""
    return sum(name in str(one.body) and "holdfast.to_summarize" in str(one.body) for one in stack.model.requests)
