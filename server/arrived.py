"""How a request arrived, before its caller is known: its scheme, host and peer address."""

import ipaddress
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Scope


@dataclass(frozen=True, slots=True)
class Arrived:
    """What the gate found out about a request: the scheme and the host, with its port, as the caller's client sees them.

    `ambient` says whether credentials that a browser or a proxy adds by itself count: cookies and proxy headers.
    """

    scheme: str
    host: str
    ambient: bool


def last_of(headers: Headers, name: str) -> str:
    """The last value of a list that proxies append to, also across several lines: the values before it may be forged."""
    return ",".join(headers.getlist(name)).rpartition(",")[2].strip()


def without_port(text: str) -> str:
    """An address without its port, if it has one."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def peer_of(scope: Scope) -> str:
    """The address that a request comes from; '' if there is none."""
    client = scope.get("client")
    return client[0] if client else ""


def network_of(address: str) -> str:
    """The network by which limits count an address: itself; for IPv6 its 64 bits; `elsewhere` if the text is no address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "elsewhere"
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)


def root_of(scope: Scope) -> str:
    """The path under which the application is mounted; '' for none."""
    found: str = scope.get("root_path", "")
    return found
