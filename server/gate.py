"""The gate before all routes: which hosts are served, which pages may send, and who calls."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .problems import response_of
from .refusal import Refusal

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
"""The names under which a server on loopback is reached. Another one means that a page had its own name lead here."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_PORT = re.compile(r":[0-9]{1,5}$")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request. Routes find it under `caller` in the request's state.

    Attributes:
        name: The caller's name.
    """

    name: str


LOCAL = Caller("local")
"""Whoever reaches a server that listens on loopback alone."""


class Gate:
    """ASGI middleware that refuses requests which no caller of this server can have meant, and names who sends the others."""

    def __init__(self, app: ASGIApp, *, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit the request, or answer with the refusal."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Cross-Origin-Resource-Policy"] = "same-origin"
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            caller = self._admitted(scope)
        except Refusal as refusal:
            await response_of(refusal)(scope, receive, sealed)
            return
        scope.setdefault("state", {})["caller"] = caller
        await self._app(scope, receive, sealed)

    def _admitted(self, scope: Scope) -> Caller:
        """The caller of a request.

        Raises:
            Refusal: The request names another host, or a page of another site sent it.
        """
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _PORT.sub("", hosts[0]).lower() not in self._hosts:
            raise Refusal(421, "wrong_host", "this server is reached under another name; look at the header Host")
        here = f"{scope.get('scheme', 'http')}://{hosts[0]}"
        followed = scope["method"] in SAFE_METHODS and headers.get("sec-fetch-mode") == "navigate"
        if not followed and _from_elsewhere(headers, here):  # a link may lead here; a page of another site fetches nothing
            raise Refusal(403, "cross_site", "a page of another site may not send this")
        return LOCAL


def _from_elsewhere(headers: Headers, here: str) -> bool:
    """Whether a page of another site sends a request: browsers say where it comes from, and pages cannot change that."""
    fetched, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if fetched is not None:
        return fetched not in ("same-origin", "none")
    return origin is not None and origin.lower() != here.lower()
