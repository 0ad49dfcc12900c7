"""The ASGI application: the routes before a client, and what all of them have in common."""

import logging
from collections.abc import Collection, Iterator, Mapping
from functools import cache, partial
from typing import Any

from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.client import AsyncClient
from holdfast.client.figures import Figures
from holdfast.errors import HoldfastError

from . import conversations, decisions, operating, scraping
from .bounds import Bounds
from .draining import Draining
from .gate import LOOPBACK_NAMES, Gate
from .intake import body_of, key_of, query_of
from .openapi import described
from .operation import Asked, Operation, Serving
from .problems import MEDIA_TYPE, response_of, unexpected
from .refusal import Refusal
from .rendering import as_json
from .slots import Slots
from .streams import Streams
from .watch import Watch

OPERATIONS: tuple[Operation, ...] = (*conversations.OPERATIONS, *decisions.OPERATIONS, *operating.OPERATIONS)
"""Everything that the API can do."""
ALIVE = "health"
"""The operation that is answered however much goes on."""

logger = logging.getLogger("holdfast.server")


def create_app(client: AsyncClient, *, hosts: Collection[str] = LOOPBACK_NAMES, bounds: Bounds | None = None) -> Starlette:
    """The ASGI application that serves a client's conversations, for `holdfast serve` or to be mounted elsewhere.

    Nobody is authenticated: whoever reaches the application reads and decides. It checks that a request names one of `hosts`,
    and that no page of another site has sent it. The client stays the caller's, who closes it, and belongs to the loop that
    serves.

    Args:
        client: The client that carries everything out; `start` needs one that names an app.
        hosts: The names under which the application is reached, without ports; by default those of loopback.
        bounds: The bounds of requests and streams.
    """
    bounds = bounds or Bounds()
    draining = Draining()
    requests = Slots(bounds.requests, code="too_many_requests", what="requests", retry_s=1)
    serving = Serving(client, bounds, draining, Streams(bounds, draining), requests, Figures(client))
    app = Starlette(
        routes=[*_routes(serving), Route("/openapi.json", _description, methods=["GET"]), scraping.route(serving)],
        middleware=[Middleware(Watch, counts=serving.counts), Middleware(Gate, hosts=hosts)],
        exception_handlers={HTTPException: _no_route},
    )
    app.router.redirect_slashes = False
    app.state.serving = serving
    return app


def drain(app: Starlette) -> None:
    """Begin to drain an application: its streams and long polls end, saying where to resume, and no stream is opened any more.

    `holdfast serve` does this at SIGTERM, and ends when the requests that were under way have their answers.
    """
    app.state.serving.draining.begin()


def _routes(serving: Serving) -> Iterator[Route]:
    """A route for each path: the refusal of another method names all that the path has."""
    for path in dict.fromkeys(operation.path for operation in OPERATIONS):
        by_method = {operation.method: operation for operation in OPERATIONS if operation.path == path}
        last = path.replace("/{message_id}", "/{message_id:path}")  # an id of the caller's, which may hold slashes
        route = Route(last, partial(_answered, by_method, serving), methods=list(by_method))
        if route.methods is not None and any(operation.streams for operation in by_method.values()):
            route.methods.discard("HEAD")  # the head of a stream would never end
        yield route


async def _answered(by_method: Mapping[str, Operation], serving: Serving, request: Request) -> Response:
    operation = by_method["GET" if request.method == "HEAD" else request.method]
    request.scope["state"]["path"] = operation.path
    try:
        if operation.name != ALIVE:
            serving.requests.check()
        with serving.requests.one():
            query = query_of(request, operation.query, serving.bounds)
            body = None if operation.body is None else await body_of(request, operation.body, serving.bounds)
            key = key_of(request, operation.key, body)
            asked = Asked(serving, _root(request), request.path_params, request.headers, query, body, key)
            found = await operation.run(asked)
    except HoldfastError as error:
        return response_of(error)
    except Exception:  # a mistake of ours: its traceback is for the log alone
        logger.exception("%s %s failed", request.method, operation.path)
        return Response(as_json(unexpected()), status_code=500, media_type=MEDIA_TYPE)
    if isinstance(found, BaseModel):
        return Response(as_json(found.model_dump()), status_code=operation.status, media_type="application/json")
    return found


async def _description(request: Request) -> Response:
    return Response(as_json(_described() | {"servers": [{"url": _root(request) or "/"}]}), media_type="application/json")


@cache
def _described() -> dict[str, Any]:
    return described(OPERATIONS)


def _root(request: Request) -> str:
    found: str = request.scope.get("root_path", "")
    return found


async def _no_route(_: Request, error: Exception) -> Response:
    """The answer where no route fits."""
    if not isinstance(error, HTTPException):
        raise error
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "refused")
    return response_of(Refusal(error.status_code, code, str(error.detail), headers=error.headers))
