"""The server on a socket of its own: uvicorn, on loopback, until a signal drains it."""

import asyncio
import contextlib
import ipaddress
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.applications import Starlette

from holdfast.errors import ConfigurationError

from .app import drain

DRAIN_S = 40
"""How long requests may take to come to their end when the server is drained: longer than a call of the client."""
BACKLOG = 2048


async def listen(app: Starlette, opened: socket.socket, *, ready: Callable[[str], None]) -> None:
    """Serve an application on a socket until SIGTERM or SIGINT: then streams end, and requests that are under way finish.

    Args:
        app: The application of `create_app`.
        opened: The socket, from `open_socket`.
        ready: Called with the server's URL once it listens.
    """
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        log_level="critical",  # what goes wrong is logged by the application itself
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=DRAIN_S,
        backlog=BACKLOG,
    )
    host, port = opened.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    await _Server(config, app, lambda: ready(url)).serve(sockets=[opened])


def open_socket(host: str, port: int) -> socket.socket:
    """A socket that is bound to a port of loopback; port 0 takes any that is free.

    Raises:
        ConfigurationError: The host is not loopback, or the port cannot be had.
    """
    address = loopback(host)
    if not 0 <= port <= 65535:  # noqa: PLR2004 - the largest port
        raise ConfigurationError("port", f"{port} is no port", "use one from 1 to 65535, or 0 for any that is free")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # only then does asyncio set TCP_NODELAY
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((address, port))
    except OSError as error:
        opened.close()
        fix = "choose another one, or 0 for any that is free"
        raise ConfigurationError("port", f"{host}:{port} cannot be had ({error.strerror or error})", fix) from error
    return opened


def loopback(host: str) -> str:
    """The address of a host on loopback.

    Raises:
        ConfigurationError: The host is another one: nobody is authenticated, so nobody else may reach the server.
    """
    address = "127.0.0.1" if host.lower() == "localhost" else host.strip("[]")
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(address).is_loopback:
            return address
    raise ConfigurationError(
        "host",
        f"{host!r:.80} is not an address of loopback, and the server does not ask who calls: who reaches it decides",
        "use 127.0.0.1 or ::1, and put before it what authenticates",
    )


class _Server(uvicorn.Server):
    """A server whose signals the event loop handles, and that drains its application before it waits for its requests."""

    def __init__(self, config: uvicorn.Config, app: Starlette, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._app = app
        self._ready = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let SIGTERM and SIGINT end the server; the process then ends as it does without a signal."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then wait for the requests."""
        drain(self._app)
        await super().shutdown(sockets)
