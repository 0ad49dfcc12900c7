"""The checks of strangers' access to Redis: clients without a password, and eavesdroppers on the network."""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

from holdfast.errors import CorruptStore, HoldfastError
from holdfast.persistence.keys import STORE_ID, Keys
from holdfast.persistence.redis_connection import client, translated

from .check import Check, Outcome, fail, ok, warn
from .redis_url import anonymous, by_socket, on_loopback, own_socket

_MAY_NOT = ("NOPERM", "NoPermission")
_ASKS = ("NOAUTH", "WRONGPASS", "Authentication", "DENIED")
_WORSE = [Outcome.OK, Outcome.WARN, Outcome.FAIL]
_NO = ("0", "F", "FALSE", "N", "NO")
"""The values that the driver takes for no."""
_PASSWORD = "set a password (redis-cli ACL SETUSER, or requirepass), and put it into HOLDFAST_REDIS_URL"  # noqa: S105 - advice


async def door_checks(url: str, namespace: str = "holdfast") -> list[Check]:
    """The checks whether the Redis at a URL asks for credentials, and whether the connection can be overheard."""
    if by_socket(url):
        return [await _socket(url, namespace), tls(url, loopback=True)]
    loopback = await on_loopback(urlsplit(url).hostname or "localhost")
    return [auth(loopback=loopback, open_=await answers_strangers(url, namespace)), tls(url, loopback=loopback)]


async def answers_strangers(url: str, namespace: str = "holdfast") -> bool | None:
    """Whether the Redis at a URL lets a client without credentials read; None where its answer does not tell."""
    keys = Keys(namespace)
    async with aclosing(client(anonymous(url), lambda: None)) as redis:
        # Redis permits keys to a user by their names: one key may be refused, and another not.
        looks: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: redis.get(STORE_ID),
            lambda: redis.exists(keys.meta("layout")),
            lambda: redis.hgetall(keys.meta("layout")),
            lambda: redis.zcard(keys.conversations(0, None, None)),
        )
        for look in looks:
            try:
                async with translated():
                    await look()
            except CorruptStore:  # a value of a wrong type, whose type Redis has told
                return True
            except HoldfastError as error:
                if any(word in str(error) for word in _MAY_NOT):
                    continue
                return False if any(word in str(error) for word in _ASKS) or _wants_certificate(url, error) else None
            return True
    return False


def _wants_certificate(url: str, error: BaseException) -> bool:
    """Whether the server broke a connection off because the client had no certificate."""
    alerts = ["CERTIFICATE REQUIRED"]
    if "ssl_certfile" in parse_qs(urlsplit(url).query):  # this URL's own client has one, so its lack explains the failure
        alerts.append("HANDSHAKE FAILURE")
    found: BaseException | None = error
    while found is not None:
        said = str(found).upper().replace("_", " ")
        if "SSL" in said and any(alert in said for alert in alerts):
            return True
        found = found.__cause__ or found.__context__
    return False


def auth(*, loopback: bool, open_: bool | None, where: str = "") -> Check:
    """The check of Redis's password, by whether strangers are let in; `where` names a place other than the URL's."""
    if open_ is None:
        return warn("redis auth", f"whether it lets a client without a password in could not be told{where}", _PASSWORD)
    if not open_:
        return ok("redis auth", "it lets nobody in without credentials")
    asks = f"it asks for no password{where}"
    if loopback:
        return warn("redis auth", f"{asks}: everybody on this machine reads and decides everything", _PASSWORD)
    return fail("redis auth", f"{asks}: whoever reaches it reads and decides everything", _PASSWORD)


async def _socket(url: str, namespace: str) -> Check:
    """The check of the password of a server behind a unix socket: it may listen on TCP ports too."""
    private = own_socket(url)
    ports = await _ports(url)
    if private and ports == []:
        return ok("redis auth", "by a unix socket that nobody but this user gets to, and it listens nowhere else")
    found = [] if private else [auth(loopback=True, open_=await answers_strangers(url, namespace))]
    for scheme, port in ports or ():
        found.append(await _port(scheme, port, namespace))
    if ports is None:
        found.append(auth(loopback=True, open_=None, where=", for it does not tell whether it listens by TCP too"))
    return max(found, key=lambda check: _WORSE.index(check.status))


async def _port(scheme: str, port: int, namespace: str) -> Check:
    """The check of a TCP port of the server: tried at this machine's own addresses, and at one that others reach."""
    query = "?ssl_cert_reqs=none&ssl_check_hostname=false" if scheme == "rediss" else ""
    outer = _outer_address()
    hosts = ["127.0.0.1", "[::1]", *([outer] if outer is not None else [])]
    answers = await asyncio.gather(*(answers_strangers(f"{scheme}://{host}:{port}/0{query}", namespace) for host in hosts))
    if outer is not None and answers[-1]:
        return auth(loopback=False, open_=True, where=f" at TCP port {port}, which {outer} has too")
    # A stranger is the same user at each address, so one refusal is enough.
    open_ = True if True in answers else False if False in answers else None
    return auth(loopback=True, open_=open_, where=f" at TCP port {port}")


async def _ports(url: str) -> list[tuple[str, int]] | None:
    """The TCP ports of a server that is reached by a socket, each with its URL scheme; None if the server does not tell."""
    asked: Mapping[str, Any] = {}
    async with aclosing(client(url, lambda: None)) as redis:
        try:
            async with translated():
                ports = tcp_ports(await redis.info("server"))
        except HoldfastError:
            return None
        if not ports:
            return None if ports is None else []
        with suppress(HoldfastError):  # a Redis service often forbids CONFIG
            async with translated():
                asked = await redis.config_get("tls-port")
    secure = {int(value) for value in asked.values()} - {0}
    return [("rediss" if port in secure else "redis", port) for port in sorted(ports | secure)]


def tcp_ports(info: Mapping[str, Any]) -> set[int] | None:
    """The TCP ports of a server that its INFO names; None if INFO does not tell."""
    port = info.get("tcp_port")  # with TLS alone, this is the TLS port
    if not isinstance(port, int):
        return None
    listeners = [value for name, value in info.items() if name.startswith("listener") and isinstance(value, dict)]
    return {port, *(one["port"] for one in listeners if isinstance(one.get("port"), int))} - {0}


def _outer_address() -> str | None:
    """The address from which this machine reaches others; None if there is none. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect(("192.0.2.1", 9))  # an address in a network reserved for documentation
            address = str(way.getsockname()[0])
        except OSError:
            return None
    return None if ipaddress.ip_address(address).is_loopback else address


def tls(url: str, *, loopback: bool) -> Check:
    """The check of the connection's encryption, by the URL."""
    parts = urlsplit(url)
    if parts.scheme == "rediss":
        given = parse_qs(parts.query)
        if given.get("ssl_cert_reqs", ["required"])[0].lower() in ("none", "optional", "cert_none"):
            fix = "leave ssl_cert_reqs out; name the CA by ssl_ca_certs"
            return warn("redis tls", "the server's certificate is not checked", fix)
        if given.get("ssl_check_hostname", ["true"])[0].upper() in _NO:
            said = "the server's name is not checked: whoever has any certificate of that CA may stand in for it"
            return warn("redis tls", said, "leave ssl_check_hostname out; connect by the name that the certificate has")
        return ok("redis tls", "the connection is by TLS")
    if loopback:
        return ok("redis tls", "none, and none is needed: the connection does not leave this machine")
    said = "the connection leaves this machine without TLS: whoever listens on the way reads passwords and conversations"
    return warn("redis tls", said, "have Redis serve TLS, and use rediss:// (or a tunnel, and its address on this machine)")
