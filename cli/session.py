"""The client of a command, and the stack under it."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from holdfast.actors.log_lines import write_lines
from holdfast.client import AsyncClient
from holdfast.client.arguments import this_user
from holdfast.client.stack import Stack
from holdfast.conversation import Principal

from .options import Where

TIMEOUT_S = 30.0
LOGGING = ("HOLDFAST_LOG_LEVEL", "HOLDFAST_LOG_FORMAT")
"""The variables that have a command write log lines; without them it prints warnings alone, as plain text."""


@dataclass(frozen=True, slots=True)
class Session:
    """A client, and its stack for answers that the client does not give."""

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
        ConfigurationError: The settings cannot be used.
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
