"""The actor that hosts a conversation, as a registry finds it."""

from holdfast.actors.answers import Replied
from holdfast.conversation import Wake
from holdfast.registry.registry import Delivery


async def ensure_started(registry, conversation_id, *, timeout_s, create=False):
    """The actor that hosts the conversation, which is revived from the store if it has none."""
    result = await registry.deliver(
        Delivery(conversation_id, Wake(), timeout_s=timeout_s, create=create, waits_for_store=False)
    )
    if not isinstance(result, Replied):
        raise result.error
    return registry._hosts[conversation_id]
