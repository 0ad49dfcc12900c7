"""The pages to sign in and out: by an API key, the one-time link, or an identity provider. None needs a script.

Opening a page changes nothing, so that no preview or prefetch uses a link up; its button does.
"""

import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.errors import HoldfastError
from holdfast.server.arrived import root_of
from holdfast.server.authentication import Authentication
from holdfast.server.code_flow import WAY_S, CodeFlow
from holdfast.server.error_responses import headers_of
from holdfast.server.intake import read_body
from holdfast.server.operation import Serving
from holdfast.server.refusal import Refusal
from holdfast.server.slots import Share, Slots
from holdfast.server.tickets import SESSION_S, cookie_of

from .destinations import destination
from .form_body import form_of
from .templates import page

ON_THE_WAY = "-signing-in"
"""The suffix of the cookie's name while a sign-in at the provider is under way."""
LONGEST_KEY = 1000
MOST_BYTES = 1 << 16
MOST_BODY_S = 10.0
MOST_AT_ONCE = 200
MOST_OF_AN_ADDRESS = 40
"""The most requests of strangers handled at once, in all and from one address; they take no places of known callers."""

logger = logging.getLogger("holdfast.server")

Handler = Callable[[Request], Awaitable[Response]]


class SigningIn:
    """The pages of one server."""

    def __init__(self, serving: Serving, authentication: Authentication) -> None:
        self._serving = serving
        self._authentication = authentication
        issuer = authentication.issuer
        self._slots = Slots(MOST_AT_ONCE, code="too_many_requests", what="sign-ins", retry_s=1)
        bounds = serving.bounds
        self._bounds = replace(bounds, body_bytes=min(bounds.body_bytes, MOST_BYTES), body_s=min(bounds.body_s, MOST_BODY_S))
        self._flow = None if issuer is None or issuer.client_id is None else CodeFlow(issuer, serving.tickets)

    def routes(self) -> list[Route]:
        """The routes of the sign-in pages."""
        of_provider = []
        if self._flow is not None:
            going, coming = partial(self._to_provider, self._flow), partial(self._from_provider, self._flow)
            of_provider = [("/signin/oidc", going), ("/signin/callback", coming)]
        return [
            Route("/signin", partial(self._answered, self._sign_in), methods=["GET", "POST"]),
            *(Route(path, partial(self._answered, handler), methods=["GET"]) for path, handler in of_provider),
            Route("/signin/{token}", partial(self._answered, self._by_link), methods=["GET", "POST"]),
            Route("/signout", partial(self._answered, self._sign_out), methods=["POST"]),
        ]

    async def _answered(self, handler: Handler, request: Request) -> Response:
        """The response of a handler; an error becomes a page with advice, and nobody is signed in."""
        request.scope["state"]["path"] = "/signout" if handler == self._sign_out else "/signin"  # for `Watch`
        try:
            self._slots.check()
            address = self._serving.callers.address_of(request.scope)
            with self._slots.one(), self._slots.share(Share(address, MOST_OF_AN_ADDRESS / MOST_AT_ONCE)):
                return await handler(request)
        except HoldfastError as error:
            return await self._refused(request, error)
        except Exception:  # a bug of ours: its traceback is for the log alone
            logger.exception("%s failed", request.scope["state"]["path"])
            return self._page(request, status=500, message="The server failed; its log says how.")

    async def _sign_in(self, request: Request) -> Response:
        onward = destination(self._asked_for(request), root_of(request.scope))
        if self._authentication.anyone:
            return RedirectResponse(onward, status_code=303)
        if request.method != "POST":
            return self._page(request, next_path=onward, who=await self._who(request))
        form = await form_of(request, partial(read_body, request, self._bounds, self._bounds.body_bytes))
        request.state.next_path = form.get("next")
        caller = await self._serving.callers.of_key(request.scope, form.get("key").strip()[:LONGEST_KEY])
        return await self._signed_in(request, await self._serving.tickets.opened(caller), form.get("next"))

    async def _by_link(self, request: Request) -> Response:
        token = request.path_params["token"]
        if request.method != "POST":
            self._serving.tickets.check_link(token)
            return self._page(request, link=True)
        return await self._signed_in(request, await self._serving.tickets.redeemed(token))

    async def _to_provider(self, flow: CodeFlow, request: Request) -> Response:
        if request.method == "HEAD":
            return Response()
        onward = destination(self._asked_for(request), root_of(request.scope))
        address = self._serving.callers.address_of(request.scope)
        place, secret = await flow.begun(address, _callback(request), onward)
        response = RedirectResponse(place, status_code=303, headers={"Referrer-Policy": "no-referrer"})
        _give(response, request, secret, WAY_S, ON_THE_WAY)
        return response

    async def _from_provider(self, flow: CodeFlow, request: Request) -> Response:
        if request.method == "HEAD":
            return Response()
        if len(request.scope.get("query_string", b"")) > self._serving.bounds.query_bytes:
            raise Refusal(414, "query_too_long", "the identity provider's answer is too long")
        arrived = request.state.arrived
        secret = request.cookies.get(cookie_of(arrived.scheme, arrived.host) + ON_THE_WAY) if arrived.ambient else None
        caller, onward = await flow.came_back(secret, request.query_params, _callback(request))
        response = await self._signed_in(request, await self._serving.tickets.opened(caller), onward)
        _give(response, request, "", 0, ON_THE_WAY)
        return response

    async def _sign_out(self, request: Request) -> Response:
        value = self._serving.callers.session_of(request.scope)
        if value is not None:
            await self._serving.callers.sign_out(value)
        response = RedirectResponse(f"{root_of(request.scope)}/signin", status_code=303)
        _give(response, request, "", 0)
        return response

    async def _signed_in(self, request: Request, value: str, asked_for: str = "") -> Response:
        """Set the cookie, end an earlier session, and redirect to the requested page."""
        if (older := self._serving.callers.session_of(request.scope)) is not None:
            with contextlib.suppress(HoldfastError):  # that session ends by itself
                await self._serving.callers.sign_out(older)
        response = RedirectResponse(destination(asked_for, root_of(request.scope)), status_code=303)
        _give(response, request, value, SESSION_S)
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    async def _who(self, request: Request) -> str | None:
        if self._serving.callers.session_of(request.scope) is None:
            return None
        caller = await self._serving.callers.known(request.scope)
        return None if caller is None else caller.principal.id

    async def _refused(self, request: Request, error: HoldfastError) -> Response:
        if isinstance(error, Refusal):
            return self._page(request, status=error.status, message=_said(error), headers=error.headers)
        self._serving.readiness.note(error)
        message = "The server cannot sign you in or out at the moment. Try again soon."
        return self._page(request, status=error.http_code, message=message, headers=headers_of(error))

    def _asked_for(self, request: Request) -> str:
        if len(request.scope.get("query_string", b"")) > self._serving.bounds.query_bytes:
            return ""
        return request.query_params.get("next", "")

    def _page(
        self, request: Request, *, status: int = 200, headers: dict[str, str] | None = None, next_path: str = "", **said: Any
    ) -> Response:
        root = root_of(request.scope)
        onward = destination(next_path or getattr(request.state, "next_path", self._asked_for(request)), root)
        return page(
            "signin.html",
            status=status,
            headers=headers,
            root=root,
            onward=onward,
            provider=None if self._flow is None else f"{root}/signin/oidc?next={quote(onward, safe='/')}",
            provider_name="" if self._flow is None else self._flow.name,
            linked=self._serving.tickets.linked,
            **{"message": "", "link": False, "who": None} | said,
        )


def _said(error: Refusal) -> str:
    match error.code:
        case "unauthenticated":
            return "This API key is not accepted: it is incomplete, was revoked, or has expired."
        case "too_many_failures" | "rate_limited":
            return f"There were too many attempts. Try again in {error.headers.get('Retry-After', '60')} seconds."
        case "link_used":
            return "This link was used, or has expired. Start the server again for another one, or sign in with an API key."
        case "identity_provider_unavailable":
            return "The identity provider gives no usable answer. Try again in a minute, or sign in with an API key."
        case _:
            return f"{error.detail[:1].upper()}{error.detail[1:]}."


def _give(response: Response, request: Request, value: str, holds_s: int, name: str = "") -> None:
    """Set the session cookie, or one whose name has this suffix; without time left, delete it."""
    arrived = request.state.arrived
    response.set_cookie(
        cookie_of(arrived.scheme, arrived.host) + name,
        value,
        max_age=holds_s,
        path="/",
        secure=arrived.scheme == "https",
        httponly=True,
        samesite="lax",
    )


def _callback(request: Request) -> str:
    """The URL to which a provider sends the browser back, under the name by which it reached this server."""
    arrived = request.state.arrived
    return f"{arrived.scheme}://{arrived.host}{root_of(request.scope)}/signin/callback"
