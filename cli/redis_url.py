"""A Redis URL as it may be shown, and what it says of the way there."""

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
    """A URL, or a command with one, as it may be copied: without secrets; capital words are for the person to replace."""
    return redaction.redacted(text).replace(f"://{HIDDEN}@", "://USER:PASSWORD@").replace(f"={HIDDEN}", "=PASSWORD")


def anonymous(url: str) -> str:
    """The same place without anything that says who comes: no password, no user, no certificate."""
    parts = urlsplit(url)
    query = {name: values for name, values in parse_qs(parts.query).items() if name not in _CREDENTIALS}
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"  # `urlunsplit` would drop an empty host
    return f"{place}?{urlencode(query, doseq=True)}" if query else place


def by_socket(url: str) -> bool:
    """Whether a unix socket leads there."""
    return urlsplit(url).scheme == "unix"


def own_socket(url: str) -> bool:
    """Whether a unix socket leads there that nobody but this user gets to: by its own mode, or a folder's above it.

    A link says nothing: it is where it leads to that counts.
    """
    if not by_socket(url):
        return False
    try:
        socket_path = Path(unquote(urlsplit(url).path)).resolve(strict=True)
        found = [path.stat() for path in (socket_path, *socket_path.parents)]
    except (OSError, RuntimeError, ValueError):  # a circle of links; a NUL
        return False
    return any(one.st_uid == os.getuid() and not one.st_mode & 0o077 for one in found)


async def on_loopback(host: str) -> bool:
    """Whether a host is this machine, by addresses that nobody else reaches; one that cannot be resolved is not."""
    try:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return bool(found) and all(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in found)
    except (OSError, ValueError, UnicodeError):
        return False
