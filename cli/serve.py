"""`holdfast serve`: the HTTP server."""

import asyncio
import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from holdfast.actors.log_lines import write_lines
from holdfast.errors import ConfigurationError

from .display import clean
from .options import Where
from .session import session

HOST = "127.0.0.1"
PORT = 8484
NEEDED = ("starlette", "uvicorn")


def run(
    where: Where,
    *,
    host: Annotated[str, typer.Option(help="The address to listen on, which must be one of loopback.")] = HOST,
    port: Annotated[int, typer.Option(help="The port; 0 takes any that is free.")] = PORT,
) -> None:
    """Serve conversations, decisions and event streams over HTTP, on loopback, until SIGTERM or Ctrl-C.

    Whoever reaches the server reads and decides: it asks nobody who they are. It keeps nothing; several may run side by side.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigurationError("server", f"{' and '.join(missing)} is not installed", "pip install 'holdfast[server]'")
    asyncio.run(_serve(where, host, port))


async def _serve(where: Where, host: str, port: int) -> None:
    from holdfast.server import create_app  # noqa: PLC0415 - the extra `server`, whose absence has an error of its own
    from holdfast.server.listening import listen, open_socket  # noqa: PLC0415 - as above

    write_lines("server", where.settings().log)
    opened = open_socket(host, port)
    try:
        async with session(where, with_app=True) as connected:
            await connected.stack.transport()  # what cannot be joined is said here, and the first request does not wait for it
            await listen(create_app(connected.client), opened, ready=_say)
    finally:
        opened.close()


def _say(url: str) -> None:
    sys.stdout.write(clean(f"Holdfast listens on {url} ({url}/openapi.json describes it).") + "\n")
    sys.stdout.flush()
