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
async def session(
    where: Where,
    *,
    timeout_s: float = TIMEOUT_S,
    with_app: bool = False,
    roll_back: bool = False,
    publish: bool | None = None,
    lift: bool = False,
) -> AsyncIterator[Session]:
    """A client of where the options lead; nothing is connected before it is needed.

    Args:
        where: The options.
        timeout_s: The deadline of each call.
        with_app: Whether `HOLDFAST_APP` counts too. On the embedded stack, a client that names the app has its workers run as
            in this very environment; who only decides a call, in a shell without the app's keys, must not do that unasked.
        roll_back: Whether this release may take the place of a newer one.
        publish: Whether the app is published, whatever the settings say; None leaves it to them.
        lift: Whether Holdfast is started again, if it was stopped on its cluster.

    Raises:
        ConfigurationError: The settings cannot be used.
    """
    settings = where.settings()
    changes = ({} if with_app else {"app": where.app}) | ({} if publish is None else {"publish": publish})
    stack = Stack(settings.model_copy(update=changes), None, roll_back=roll_back, lift=lift)
    try:
        yield Session(AsyncClient(stack, timeout_s=timeout_s), stack)
    finally:
        await stack.close()
