"""`holdfast serve`: the HTTP server."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Annotated
from urllib.parse import urlsplit

import typer

from holdfast.actors.logs import write_lines
from holdfast.embedded.home import Home
from holdfast.errors import ConfigurationError, HomeUnusable

from .display import clean
from .hints import command
from .options import Where
from .session import session

HOST = "127.0.0.1"
PORT = 8484
NEEDED = ("starlette", "uvicorn", "joserfc", "jinja2", "markdown_it", "nh3")


def run(
    where: Where,
    *,
    host: Annotated[str, typer.Option(help="The address to listen on; beyond loopback, callers must be authenticated.")] = HOST,
    port: Annotated[int, typer.Option(help="The port; 0 takes any that is free.")] = PORT,
    public_host: Annotated[
        list[str] | None,
        typer.Option(help="A name under which it is reached, besides those of loopback; again for more.", metavar="NAME"),
    ] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Turn sign-in off: all who reach it may do everything. Only on loopback.")
    ] = False,
) -> None:
    """Serve the inbox, and conversations, decisions and event streams over HTTP, until SIGTERM or Ctrl-C.

    Callers send an API key (`holdfast keys create`), or a token of the configured identity provider. Without a provider, on
    loopback, it prints a link that signs one person in; if the output is no terminal, the link is in a file of the home. The
    server keeps no state; several may run side by side.
    """
    check_installed()
    asyncio.run(_serve(where, host, port, public_host or [], no_auth=no_auth))


def check_installed() -> None:
    """Refuse to serve without the extra `server`."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigurationError("server", f"not installed: {', '.join(missing)}", "pip install 'holdfast[server]'")


async def _serve(where: Where, host: str, port: int, public: list[str], *, no_auth: bool) -> None:
    from holdfast.server import Authentication, create_app, listening, sign_in_link  # noqa: PLC0415 - the extra `server`

    write_lines("server", where.settings().log)
    authentication = Authentication.of(os.environ, anyone=no_auth)
    hosts = listening.names_of(host, [*public, *os.environ.get("HOLDFAST_SERVER_HOSTS", "").replace(",", " ").split()])
    local = listening.is_loopback(host)
    if no_auth and set(hosts) - set(listening.names_of(host, [])):
        fix = "leave --no-auth out, or --public-host and HOLDFAST_SERVER_HOSTS"
        raise ConfigurationError("no_auth", "a public name lets others reach it, and without sign-in all could decide", fix)
    opened, kept = listening.open_socket(host, port), contextlib.ExitStack()
    try:
        async with session(where, with_app=True) as connected:
            keys = [] if local else await connected.client.access.keys()
            listening.check_reachable(host, authentication, keys, round(time.time() * 1000))
            if not local and hosts == listening.names_of(HOST, []):
                sys.stderr.write("note: it answers under the names of loopback alone; add others with --public-host\n")
            await connected.stack.transport()  # an unreachable stack is reported now, and the first request does not wait
            app = create_app(connected.client, hosts=hosts, authentication=authentication)

            def say(url: str) -> None:
                linked = local and not authentication.configured and not no_auth
                signing_in = kept.enter_context(link_told(sign_in_link(app, url), where)) if linked else None
                _say(url, signing_in, where, no_auth=no_auth)

            await listening.listen(app, opened, ready=say)
    finally:
        opened.close()
        kept.close()


def _say(url: str, signing_in: str | None, where: Where, *, no_auth: bool) -> None:
    lines = [f"Holdfast listens on {url} (the inbox: {url}/inbox, the API: {url}/openapi.json)."]
    if no_auth:
        lines.append("Sign-in is off: every program on this machine may decide.")
    else:
        making = command(
            ["keys", "create", "--name", "NAME", "--scope", "read", "--scope", "start", "--scope", "decide"], where
        )
        lines.append(f"For programs, make an API key: {making}")
    if signing_in is not None:
        lines.append(signing_in)
    sys.stdout.write("".join(clean(line) + "\n" for line in lines))
    sys.stdout.flush()


@contextlib.contextmanager
def link_told(link: str, where: Where) -> Iterator[str]:
    """The line with the link, or with the file that holds it until the block ends.

    A service's output is kept, and read by people who may not sign in; so the link is only printed on a terminal.
    """
    if sys.stdout.isatty():
        yield f"To sign in with a browser, once: {link}"
        return
    place = urlsplit(link)
    name = f"sign-in-{(place.hostname or '').replace(':', '-')}-{place.port}"
    try:
        home = Home.open(where.settings().home)
        home.write_file(name, f"{link}\n")
    except HomeUnusable as error:
        yield f"To sign in with a browser, start it on a terminal: there is no private place for the link ({error})."
        return
    try:
        yield f"To sign in with a browser, once: the link is in {home.path / name}"
    finally:
        with contextlib.suppress(OSError):
            (home.path / name).unlink(missing_ok=True)
