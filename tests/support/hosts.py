"""The actor that hosts a conversation, as a registry finds it."""


async def ensure_started(registry, conversation_id, **how):
    """See `Registry.ensure_started`; the actor's name and handle."""
    await registry.ensure_started(conversation_id, **how)
    return registry._hosts[conversation_id]
