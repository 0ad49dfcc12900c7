"""The gate before all routes: which hosts are served, which pages may send requests, and how a request arrived."""

import re
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .arrived import Arrived, last_of, peer_of
from .authentication import Authentication
from .error_responses import response_of
from .refusal import Refusal

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
"""The names of a server on loopback. Another name means that a page pointed its own name here (DNS rebinding)."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, PATCH, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Request-Id, traceparent",
    "Access-Control-Max-Age": "600",
}
EXPOSED = "Idempotency-Key, Location, Retry-After, WWW-Authenticate, X-Request-Id"
_PORT = re.compile(r":[0-9]{1,5}$")


class Gate:
    """ASGI middleware that refuses requests which no caller of this server can have meant.

    Routes find an `Arrived` in the request's state (`arrived`), from which `callers.py` identifies the caller.
    """

    def __init__(self, app: ASGIApp, *, hosts: Collection[str], authentication: Authentication | None = None) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._authentication = authentication or Authentication()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit the request, or answer with the refusal."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        allowed = origin if origin in self._authentication.origins else None

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                sent["X-Content-Type-Options"] = "nosniff"
                sent["Cross-Origin-Resource-Policy"] = "same-origin"
                sent["X-Frame-Options"] = "DENY"
                sent["Cross-Origin-Opener-Policy"] = "same-origin"
                sent.setdefault("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
                sent.setdefault("Cache-Control", "no-store")
                if self._authentication.origins:
                    sent.add_vary_header("Origin")
                if allowed is not None:  # without credentials: another origin sends a bearer
                    sent["Access-Control-Allow-Origin"] = allowed
                    sent["Access-Control-Expose-Headers"] = EXPOSED
            await send(message)

        try:
            arrived = self._admitted(scope, headers, allowed)
        except Refusal as refusal:
            await response_of(refusal)(scope, receive, sealed)
            return
        if allowed is not None and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await Response(status_code=204, headers=PREFLIGHT)(scope, receive, sealed)
            return
        scope.setdefault("state", {})["arrived"] = arrived
        await self._app(scope, receive, sealed)

    def _admitted(self, scope: Scope, headers: Headers, allowed: str | None) -> Arrived:
        """How a request arrived; one that no caller of this server can have meant is refused."""
        if "content-length" in headers and "transfer-encoding" in headers:  # a proxy may have used the other one
            detail = "send either Content-Length or Transfer-Encoding: with both, two readers may see different requests"
            raise Refusal(400, "two_lengths", detail, headers={"Connection": "close"})
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _PORT.sub("", hosts[0]).lower() not in self._hosts:
            raise Refusal(421, "wrong_host", "this server does not serve the name in the header Host")
        scheme = self._scheme(scope, headers)
        safe = scope["method"] in SAFE_METHODS
        elsewhere = _from_elsewhere(headers, f"{scheme}://{hosts[0]}")
        top = headers.get("sec-fetch-dest", "document") == "document"  # not a frame within the other page
        followed = safe and top and headers.get("sec-fetch-mode") == "navigate"
        if elsewhere and not followed and allowed is None:  # a link from elsewhere may lead here, a fetch may not
            raise Refusal(403, "cross_site", "a page of another site may not send this request")
        said = "sec-fetch-site" in headers or "origin" in headers
        return Arrived(scheme, hosts[0], ambient=(not elsewhere or followed) and (safe or said))

    def _scheme(self, scope: Scope, headers: Headers) -> str:
        """The scheme that the caller's client sees; a known proxy that ends TLS states it."""
        found = scope.get("scheme", "http")
        if self._authentication.proxy.is_peer(peer_of(scope)):
            forwarded = last_of(headers, "x-forwarded-proto").lower()
            found = forwarded if forwarded in ("http", "https") else found
        return str(found)


def _from_elsewhere(headers: Headers, here: str) -> bool:
    """Whether a page of another site sends a request: browsers state its origin, and pages cannot change that."""
    fetched, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if fetched is not None:
        return fetched not in ("same-origin", "none")
    return origin is not None and origin.lower() != here.lower()
