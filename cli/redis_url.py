"""A Redis URL as it may be shown, and the kind of connection that it names."""

import asyncio
import ipaddress
import os
import socket
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from holdfast.redaction import HIDDEN, PLAIN, Redaction

_CREDENTIALS = ("username", "password", "ssl_certfile", "ssl_keyfile", "ssl_password")


def masked(url: str) -> str:
    """The URL without user and password."""
    return PLAIN.redacted(url)


def to_copy(text: str, redaction: Redaction = PLAIN) -> str:
    """A URL, or a command with one, for copying: without secrets; a person replaces the words in capitals."""
    return redaction.redacted(text).replace(f"://{HIDDEN}@", "://USER:PASSWORD@").replace(f"={HIDDEN}", "=PASSWORD")


def anonymous(url: str) -> str:
    """The URL of the same server without credentials: no password, no user, no certificate."""
    parts = urlsplit(url)
    query = {name: values for name, values in parse_qs(parts.query).items() if name not in _CREDENTIALS}
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"  # `urlunsplit` would drop an empty host
    return f"{place}?{urlencode(query, doseq=True)}" if query else place


def by_socket(url: str) -> bool:
    """Whether the URL names a unix socket."""
    return urlsplit(url).scheme == "unix"


def own_socket(url: str) -> bool:
    """Whether the URL names a unix socket that only this user can reach: by its own mode, or that of a folder above it.

    The mode of a link does not count, only that of its target.
    """
    if not by_socket(url):
        return False
    try:
        socket_path = Path(unquote(urlsplit(url).path)).resolve(strict=True)
        found = [path.stat() for path in (socket_path, *socket_path.parents)]
    except (OSError, RuntimeError, ValueError):  # a loop of links; a NUL
        return False
    return any(one.st_uid == os.getuid() and not one.st_mode & 0o077 for one in found)


async def on_loopback(host: str) -> bool:
    """Whether all addresses of a host are loopback ones, which no other machine reaches; False if it cannot be resolved."""
    try:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return bool(found) and all(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in found)
    except (OSError, ValueError, UnicodeError):
        return False
