"""The quotas of the API key behind a caller: the key itself, a session that it opened, a page that it lets in."""

from holdfast.client import AsyncClient
from holdfast.client.access import Access
from holdfast.conversation.ids import digest
from holdfast.errors import ConversationNotFound, MessageNotFound, QuotaUsedUp, SummaryNotFound

from .caller import Caller


async def use(
    client: AsyncClient, caller: Caller, conversation_id: str, key: str, *, starts: bool = False, compacts: bool = False
) -> None:
    """Count a message of a caller; `starts`: it starts a conversation. What was accepted before, under that key, is free.

    `compacts`: it is a request for a summary, which counts as a message.
    """
    if caller.key_id is None or caller.quotas is None:
        return
    request = digest(conversation_id, key, "start" if starts else "compact" if compacts else "send")
    try:
        await client.access.use(caller.key_id, caller.quotas, request, starts=starts)
    except QuotaUsedUp as used_up:
        try:
            known = client.conversation(conversation_id)
            await (known.summary(key) if compacts else known.message(key))
        except (ConversationNotFound, MessageNotFound, SummaryNotFound):
            raise used_up from None


async def charge(access: Access, caller: Caller, conversation_id: str) -> None:
    """Count a conversation's usage for the API key that started it, if that key has a quota of it."""
    if caller.key_id is not None and caller.quotas is not None and caller.quotas.of_usage:
        await access.charge(conversation_id, caller.key_id)
