"""Acting for somebody whom this process has verified: what a server does for its callers, and no other program."""

import copy

from holdfast.conversation import Principal

from .async_client import AsyncClient


def acting_for(client: AsyncClient, principal: Principal) -> AsyncClient:
    """The same client, acting as a principal whose proof is this process's own: its commands are signed, so that it counts."""
    acting = copy.copy(client)
    acting._connection = client._connection.acting_as(principal, proves=True)  # noqa: SLF001 - the client's own name is for all
    return acting
