"""What is known of a request before its caller is: how it arrived, and from which address."""

from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Scope


@dataclass(frozen=True, slots=True)
class Arrived:
    """What the gate found out about a request.

    Attributes:
        scheme: `http` or `https`, as the caller's client sees it.
        host: The name and port that the caller's client reached.
        ambient: Whether what a browser or a proxy adds by itself counts: cookies, and the headers of a proxy.
    """

    scheme: str
    host: str
    ambient: bool


def last_of(headers: Headers, name: str) -> str:
    """The last value of a list that proxies lengthen, some in a line of its own: what came before is the caller's word."""
    return ",".join(headers.getlist(name)).rpartition(",")[2].strip()


def without_port(text: str) -> str:
    """An address without the port that may stand behind it."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def peer_of(scope: Scope) -> str:
    """The address that a request comes from; '' where there is none."""
    client = scope.get("client")
    return client[0] if client else ""
