"""Acting for somebody whom this process has verified: what a server does for its callers, and no other program."""

from holdfast.conversation import Principal

from .async_client import AsyncClient
from .stack_gateway import StackGateway, connection_of


def acting_for(client: AsyncClient, principal: Principal) -> AsyncClient:
    """The same client, acting as a principal whose proof is this process's own: its commands are signed, so that it counts."""
    return AsyncClient(StackGateway(connection_of(client.gateway).acting_as(principal, proves=True)))
