"""The client of a command, and the stack under it, if it has one."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.actors.logs import write_lines
from holdfast.backoff import wall_ms
from holdfast.client import AsyncClient
from holdfast.client.connecting import over_http
from holdfast.client.operation import this_user
from holdfast.client.stack import Stack
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Principal
from holdfast.errors import ConfigurationError

from .options import Where

if TYPE_CHECKING:
    from holdfast.persistence import Store

TIMEOUT_S = 30.0
LOGGING = ("HOLDFAST_LOG_LEVEL", "HOLDFAST_LOG_FORMAT")
"""The variables that turn log lines on; without them a command prints only warnings, as plain text."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A client, on a stack or over a server; `stack` is None over a server. `where` has the options that led there."""

    client: AsyncClient
    stack: Stack | None
    where: Where = field(default_factory=Where)

    async def store(self) -> "Store | None":
        """The store, opened, for answers that the client does not give; None over a server."""
        return None if self.stack is None else await self.stack.store()

    async def now(self) -> int:
        """The store's time, in milliseconds UTC; over a server this machine's."""
        store = await self.store()
        return wall_ms() if store is None else await store.now()


@dataclass(frozen=True, slots=True)
class Session(Reached):
    """A client on a stack, for a command that needs Redis or Ray itself."""

    stack: Stack


def within(where: Where, work: Callable[[Any], Awaitable[Any]], kind: type[Reached] = Reached) -> Any:
    """The result of `work`, which gets the session that the options lead to: a `Session`, or a `Reached`."""

    async def done() -> Any:
        async with (session if kind is Session else reached)(where) as opened:
            return await work(opened)

    return asyncio.run(done())


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
    """A client of the conversations that the options lead to; it connects at first use.

    `with_app` says whether `HOLDFAST_APP` counts too. On the embedded stack, a client that names the app publishes it with this
    environment; a command that only decides a call, in a shell without the app's keys, must not do that. A given `publish`
    overrides the settings. `roll_back` and `lift` are those of `Stack`.
    """
    settings = where.settings()
    if any(os.environ.get(name) for name in LOGGING):
        write_lines("cli", settings.log, anew=False)
    changes = ({} if with_app else {"app": where.app}) | ({} if publish is None else {"publish": publish})
    stack = Stack(settings.model_copy(update=changes), None, roll_back=roll_back, lift=lift)
    try:
        client = AsyncClient(StackGateway(stack, timeout_s=timeout_s))
        who = Principal(where.principal if where.principal is not None else this_user())
        yield Session(client.acting_as(who), stack, where)
    finally:
        await stack.close()


@asynccontextmanager
async def reached(where: Where) -> AsyncIterator[Reached]:
    """A client of the conversations that the options lead to, on a stack or over a server."""
    settings = where.reaching()
    if settings.url is None:
        async with session(where) as opened:
            yield opened
        return
    if where.principal is not None:
        problem = "a server knows the caller by its token alone"
        raise ConfigurationError("--as", problem, "leave it out, and give that principal's token (HOLDFAST_TOKEN)")
    async with AsyncClient(over_http(settings, timeout_s=TIMEOUT_S)) as client:
        yield Reached(client, None, where)
