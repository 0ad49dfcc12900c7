"""`/metrics`: the metrics of the namespace and of this server, for Prometheus."""

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast import metrics
from holdfast.client.access import AccessScope
from holdfast.counting import families
from holdfast.errors import HoldfastError
from holdfast.metrics import Family

from .exposition import MEDIA_TYPE, exposition
from .operation import Serving
from .problems import response_of

PATH = "/metrics"


def route(serving: Serving) -> Route:
    """The route of one server, which takes the scope admin for all agents.

    Where the store does not answer, it says so, and tells of the server alone.
    """

    async def scraped(request: Request) -> Response:
        request.scope["state"]["path"] = PATH
        try:
            caller = await serving.callers.of(request.scope)
            caller.check_scope(AccessScope.ADMIN)
            caller.check_agent(None)
        except HoldfastError as error:
            return response_of(error)
        stored = await serving.figures.families()
        return Response(exposition([*(stored or ()), *_own(serving, up=stored is not None)]), media_type=MEDIA_TYPE)

    return Route(PATH, scraped, methods=["GET"])


def _own(serving: Serving, *, up: bool) -> Iterator[Family]:
    yield Family(metrics.STORE_UP, {(): float(up)})
    yield from families(serving.counts.standing(), (metrics.REQUESTS, metrics.REQUEST_S))
    yield Family(metrics.IN_PROGRESS, {(): len(serving.requests)})
    yield Family(metrics.LISTENERS, {(): len(serving.streams)})
