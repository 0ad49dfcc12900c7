"""The ASGI application: the routes over a client, and what all of them share."""

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import cache, partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from holdfast.client import AsyncClient
from holdfast.errors import HoldfastError

from . import audit, batches, clients, conversations, decisions, operating, page_tokens, page_view, scraping, static_files
from .arrived import root_of
from .authentication import Authentication
from .authenticators import Authenticator
from .bounds import Bounds
from .caller import LOCAL, Caller
from .error_responses import MEDIA_TYPE, response_of, unexpected
from .gate import LOOPBACK_NAMES, Gate
from .intake import key_of, query_of
from .openapi import described
from .operation import Asked, Operation, Serving, routes_of
from .pages import conversations as conversation_pages
from .pages import elements, inbox, links, overview, several, visit
from .pages.signing_in import SigningIn
from .reach import conversation_named
from .readiness import unready
from .refusal import Refusal
from .rendering import as_json
from .streams import EventStream
from .watch import Watch

OPERATIONS: tuple[Operation, ...] = (
    *conversations.OPERATIONS,
    *decisions.OPERATIONS,
    *batches.OPERATIONS,
    *clients.OPERATIONS,
    *audit.OPERATIONS,
    *operating.OPERATIONS,
    *page_tokens.OPERATIONS,
    *links.OPERATIONS,
    *scraping.OPERATIONS,
)
PAGES = (*inbox.PAGES, *several.PAGES, *conversation_pages.PAGES, *overview.PAGES, *links.PAGES)
ALIVE = "health"
"""The operation that is answered under any load."""
_described = cache(partial(described, OPERATIONS))

logger = logging.getLogger("holdfast.server")


def create_app(
    client: AsyncClient,
    *,
    hosts: Collection[str] = LOOPBACK_NAMES,
    bounds: Bounds | None = None,
    authentication: Authentication | None = None,
    authenticators: Sequence[Authenticator] = (),
) -> Starlette:
    """The ASGI application that serves a client's conversations, for `holdfast serve` or to be mounted elsewhere.

    A caller needs an API key, or what `authentication` accepts. A request must name one of `hosts`, and must not come from a
    page of another site, unless its origin is allowed. The caller of `create_app` closes the client, which belongs to the
    serving loop.

    Args:
        client: The client that carries out every request; `start` needs one that names an app.
        hosts: The names under which the application is reached, without ports; by default those of loopback.
        bounds: The bounds of requests and streams.
        authentication: Who is let in besides the holders of API keys.
        authenticators: Your own ways to identify callers, asked after those of `authentication`.
    """
    authentication = authentication or Authentication()
    serving = Serving(client, bounds or Bounds(), authentication, authenticators)
    app = Starlette(
        routes=[
            links.LinkPages(serving, partial(_answered, {"POST": links.REDEEM}, serving)).route(),
            *routes_of((*OPERATIONS, *elements.OPERATIONS), serving, _answered),
            Route("/openapi.json", _description, methods=["GET"]),
            Route("/", _welcome, methods=["GET"]),
            *SigningIn(serving, authentication).routes(),
            static_files.route(),
            *routes_of(PAGES, serving, visit.answered),
        ],
        middleware=[Middleware(Watch, counts=serving.counts), Middleware(Gate, hosts=hosts, authentication=authentication)],
        exception_handlers={HTTPException: _no_route},
    )
    app.router.redirect_slashes = False
    app.state.serving = serving
    return app


def drain(app: Starlette) -> None:
    """Begin to drain an application: streams and long polls end with the place to resume from, and no new stream is opened.

    `holdfast serve` calls this at SIGTERM, and exits once the requests under way are answered.
    """
    app.state.serving.draining.set()


def sign_in_link(app: Starlette, url: str) -> str:
    """A link to an application at this URL that signs one person in, once, at this machine. It is valid for an hour.

    Opening the link does not use it up; the button of its page does. A new link replaces an earlier one, and the link ends with
    the process. Its session ends after twelve hours.
    """
    return f"{url}/signin/{app.state.serving.tickets.link()}"


async def _answered(by_method: Mapping[str, Operation], serving: Serving, request: Request) -> Response:
    operation = by_method["GET" if request.method == "HEAD" else request.method]
    request.scope["state"]["path"] = operation.path  # for `Watch`
    caller = LOCAL
    try:
        if operation.name != ALIVE:
            serving.requests.check()
        with serving.requests.one(), ExitStack() as held:
            if operation.scope is not None:
                caller = await _caller(serving, request)
                request.scope["state"]["caller"] = caller
                if operation.name not in page_view.OPERATIONS:
                    caller.check_whole()
                operation.check(caller)
                held.enter_context(serving.requests.share(*caller.shares))
            if "conversation_id" in request.path_params:
                await serving.reach.check(caller, request.path_params["conversation_id"])
            query = query_of(request, operation.query, serving.bounds)
            body = None
            if operation.body is not None:
                raw = await serving.read(request, caller, operation.room)
                body = await serving.intake.parsed(request, raw, operation.body)
            key = key_of(request, operation.key, body)
            if "suspension_id" in request.path_params:
                named = conversation_named(query, body)
                await serving.reach.check_suspension(caller, request.path_params["suspension_id"], named)
            known = partial(serving.callers.known, request.scope)
            root = root_of(request.scope)
            asked = Asked(serving, caller, root, request.path_params, request.headers, query, body, key, known)
            found = await operation.run(asked)
    except HoldfastError as error:
        return response_of(page_view.error_of(caller, error))
    except Exception:  # a bug of ours: its traceback is for the log alone
        logger.exception("%s %s failed", request.method, operation.path)
        return Response(as_json(unexpected()), status_code=500, media_type=MEDIA_TYPE)
    if isinstance(found, EventStream) and operation.scope is not None:
        found.belongs_to(caller, partial(serving.callers.stands, request.scope, caller))
    if isinstance(found, Response):
        return found
    content = as_json(page_view.reply_of(caller, found))
    if operation.scope is not None:
        serving.callers.spend_bytes(caller, len(content))
    return Response(content, status_code=operation.status, media_type="application/json")


async def _caller(serving: Serving, request: Request) -> Caller:
    """The caller of a request. If the lookup fails, the request counts as a stranger's, who is not told why."""
    try:
        return await serving.callers.of(request.scope, narrow=True)
    except Refusal:
        raise
    except HoldfastError as error:
        serving.readiness.note(error)
        raise unready(error, whole=False) from error


async def _description(request: Request) -> Response:
    return Response(
        as_json(_described() | {"servers": [{"url": root_of(request.scope) or "/"}]}), media_type="application/json"
    )


async def _welcome(request: Request) -> Response:
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(f"{root_of(request.scope)}/inbox", status_code=303)
    return PlainTextResponse(f"This is Holdfast. {root_of(request.scope)}/openapi.json describes what it serves.\n")


async def _no_route(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "refused")
    return response_of(Refusal(error.status_code, code, str(error.detail), headers=error.headers))
