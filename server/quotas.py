"""The quotas of the API key that stands behind a caller: the key itself, a session that it opened, a page that it lets in."""

from holdfast.client.access import Access
from holdfast.conversation.ids import digest

from .caller import Caller


async def use(access: Access, caller: Caller, conversation_id: str, request: str, *, starts: bool) -> None:
    """Count a message that a caller sends, which starts a conversation or not. The same one again counts once.

    Raises:
        QuotaUsedUp: A quota does not allow the message.
        StoreUnavailable: Redis does not answer in time, or refuses.
    """
    if caller.key_id is not None and caller.quotas is not None:
        await access.use(caller.key_id, caller.quotas, digest(conversation_id, request), starts=starts)


async def charge(access: Access, caller: Caller, conversation_id: str) -> None:
    """Have what a conversation uses counted for the key that has started it, where that has a quota of it.

    Raises:
        StoreUnavailable: Redis does not answer in time, or refuses.
    """
    if caller.key_id is not None and caller.quotas is not None and caller.quotas.of_usage:
        await access.charge(conversation_id, caller.key_id)
