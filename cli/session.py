"""What a command works with: a client, and the stack under it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from holdfast.client import AsyncClient
from holdfast.client.stack import Stack

from .options import Where

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Session:
    """A client, and its stack for what the client does not say."""

    client: AsyncClient
    stack: Stack


@asynccontextmanager
async def session(where: Where, *, timeout_s: float = TIMEOUT_S) -> AsyncIterator[Session]:
    """A client of where the options lead; nothing is connected before it is needed.

    Raises:
        ConfigurationError: The settings cannot be used.
    """
    stack = Stack(where.settings(), None)
    try:
        yield Session(AsyncClient(stack, timeout_s=timeout_s), stack)
    finally:
        await stack.close()
