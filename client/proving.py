"""Acting for a caller whose identity this process has verified, as only a server does."""

from holdfast.conversation import Principal

from .async_client import AsyncClient
from .stack_gateway import StackGateway, connection_of


def acting_for(client: AsyncClient, principal: Principal) -> AsyncClient:
    """The same client, acting as this principal: its commands are signed, so that the principal's proof counts."""
    return AsyncClient(StackGateway(connection_of(client.gateway).acting_as(principal, proves=True)))
