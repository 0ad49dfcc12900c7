"""The server on its own socket: uvicorn until a signal drains it, and the check that callers are authenticated there."""

import asyncio
import contextlib
import ipaddress
import re
import signal
import socket
from collections.abc import Callable, Collection, Iterator

import uvicorn
from starlette.applications import Starlette

from holdfast.client.access import ApiKey
from holdfast.errors import ConfigurationError

from .app import drain
from .authentication import Authentication
from .connections import Connections
from .gate import LOOPBACK_NAMES

DRAIN_S = 40
"""The time for requests to finish when the server is drained, in seconds: longer than a call of the client."""
BACKLOG = 2048
UNHEARD_S = 15
"""The time without a sign of a peer to which something was sent, in seconds, after which its connection is closed.

A client whose machine sleeps closes nothing, and would be present as long as the system repeats what it sent."""
_NAME = re.compile(r"(?!-)[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]")


async def listen(app: Starlette, opened: socket.socket, *, ready: Callable[[str], None]) -> None:
    """Serve an application of `create_app` on a socket of `open_socket` until SIGTERM or SIGINT.

    Then streams end, and requests under way finish. `ready` is called with the server's URL once it listens.
    """
    connections = Connections.of(app)
    config = uvicorn.Config(
        app,
        http=connections.protocol,
        lifespan="off",
        log_config=None,
        log_level="critical",  # the application itself logs what goes wrong
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=DRAIN_S,
        backlog=BACKLOG,
    )
    host, port = opened.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    async with connections.kept():
        await _Server(config, app, lambda: ready(url)).serve(sockets=[opened])


def open_socket(host: str, port: int) -> socket.socket:
    """A socket that is bound to a port of an address; port 0 takes any free one. `ConfigurationError` if there is none."""
    address = address_of(host)
    if not 0 <= port <= 65535:  # noqa: PLR2004 - the largest port
        raise ConfigurationError("port", f"{port} is no port", "use one from 1 to 65535, or 0 for any that is free")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio sets TCP_NODELAY only on such a socket
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # connections inherit it
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNHEARD_S * 1000)
        opened.bind((address, port))
    except OSError as error:
        opened.close()
        fix = "choose another one, or 0 for any that is free"
        raise ConfigurationError("port", f"{host}:{port} cannot be had ({error.strerror or error})", fix) from error
    return opened


def address_of(host: str) -> str:
    """The address that a host names; `ConfigurationError` if it is neither an address nor `localhost`."""
    address = "127.0.0.1" if host.lower() == "localhost" else host.strip("[]")
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        fix = "give an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all of them"
        raise ConfigurationError("host", f"{host!r:.80} is no address", fix) from None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    return ipaddress.ip_address(address_of(host)).is_loopback


def names_of(host: str, public: Collection[str]) -> tuple[str, ...]:
    """The names under which a server that listens there is reached: the public ones, its address, and those of loopback."""
    for name in public:
        if not _NAME.fullmatch(name):
            fix = "give what the header Host has, without scheme and port: desk.example.com"
            raise ConfigurationError("public_host", f"{name!r:.80} is not the name of a host", fix)
    address = ipaddress.ip_address(address_of(host))
    own = () if address.is_unspecified else (f"[{address}]" if address.version == 6 else str(address),)  # noqa: PLR2004
    return tuple(dict.fromkeys((*(name.lower() for name in public), *own, *LOOPBACK_NAMES)))


def check_reachable(host: str, authentication: Authentication, keys: Collection[ApiKey], now: int) -> None:
    """Refuse to listen beyond loopback without authentication, or if no caller could be let in. `now` is in ms UTC."""
    if is_loopback(host):
        return
    if authentication.anyone:
        fix = "leave --no-auth out, or listen on 127.0.0.1"
        raise ConfigurationError("no_auth", f"{host} is not loopback: anybody who reaches it could decide", fix)
    if not authentication.configured and not any(key.expires_at is None or key.expires_at > now for key in keys):
        fix = "make a key (holdfast keys create --name NAME --scope read --scope decide), or configure an identity provider"
        raise ConfigurationError("host", f"{host} is not loopback, and callers cannot be identified", fix)


class _Server(uvicorn.Server):
    """A uvicorn server with the event loop's signal handlers, which drains its application before it waits for requests."""

    def __init__(self, config: uvicorn.Config, app: Starlette, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._app = app
        self._ready = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let SIGTERM and SIGINT end the server; the process then exits normally."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and report it."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then wait for the requests."""
        drain(self._app)
        await super().shutdown(sockets)
