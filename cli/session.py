"""The client of a command, and the stack under it, where it has one."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.actors.log_lines import write_lines
from holdfast.client import AsyncClient
from holdfast.client.arguments import this_user
from holdfast.client.async_client import over_http
from holdfast.client.stack import Stack
from holdfast.conversation import Principal
from holdfast.errors import ConfigurationError

from .options import Where

if TYPE_CHECKING:
    from holdfast.persistence import RedisStore

TIMEOUT_S = 30.0
LOGGING = ("HOLDFAST_LOG_LEVEL", "HOLDFAST_LOG_FORMAT")
"""The variables that have a command write log lines; without them it prints warnings alone, as plain text."""


@dataclass(frozen=True, slots=True)
class Session:
    """A client, and its stack for answers that the client does not give."""

    client: AsyncClient
    stack: Stack


@dataclass(frozen=True, slots=True)
class Reached:
    """A client, on a stack or over a server; `stack` is None over a server."""

    client: AsyncClient
    stack: Stack | None

    async def store(self) -> "RedisStore | None":
        """The store, opened, for answers that the client does not give; None over a server."""
        return None if self.stack is None else await self.stack.store()

    async def now(self) -> int:
        """The time of the store, in milliseconds UTC; that of this machine over a server."""
        store = await self.store()
        return time.time_ns() // 1_000_000 if store is None else await store.now()


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
    """A client of the conversations that the options lead to; it connects when that is first needed.

    Args:
        where: The options.
        timeout_s: The deadline of each call.
        with_app: Whether `HOLDFAST_APP` counts too. On the embedded stack, a client that names the app publishes it with this
            environment; a command that only decides a call, in a shell without the app's keys, must not do that.
        roll_back: Whether this release may take the place of a newer one.
        publish: Whether the app is published, whatever the settings say; None leaves that to the settings.
        lift: Whether Holdfast is started again if it was stopped on its cluster.

    Raises:
        ConfigurationError: The settings cannot be used, or lead to a server.
        InvalidInput: `--as` is no name.
    """
    settings = where.settings()
    if any(os.environ.get(name) for name in LOGGING):
        write_lines("cli", settings.log, anew=False)
    changes = ({} if with_app else {"app": where.app}) | ({} if publish is None else {"publish": publish})
    stack = Stack(settings.model_copy(update=changes), None, roll_back=roll_back, lift=lift)
    try:
        client = AsyncClient(stack, timeout_s=timeout_s)
        yield Session(client.acting_as(Principal(where.principal if where.principal is not None else this_user())), stack)
    finally:
        await stack.close()


@asynccontextmanager
async def reached(where: Where) -> AsyncIterator[Reached]:
    """A client of the conversations that the options lead to, on a stack or over a server.

    Raises:
        ConfigurationError: The settings cannot be used.
    """
    settings = where.reaching()
    if settings.url is None:
        async with session(where) as opened:
            yield Reached(opened.client, opened.stack)
        return
    if where.principal is not None:
        problem = "a server knows the caller by its token, and takes nobody's word"
        raise ConfigurationError("--as", problem, "leave it out, and give that principal's token (HOLDFAST_TOKEN)")
    async with over_http(settings, timeout_s=TIMEOUT_S) as client:
        yield Reached(client, None)
