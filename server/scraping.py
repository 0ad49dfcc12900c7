"""`/metrics`: the metrics of the namespace and of this server, for Prometheus."""

from collections.abc import Iterator

from starlette.responses import Response

from holdfast import metrics
from holdfast.client.access import AccessScope
from holdfast.counting import families
from holdfast.metrics import Family

from .exposition import MEDIA_TYPE, exposition
from .operation import Asked, Operation, Serving

PLAIN = "command"
"""The script name of a Redis command that uses no script."""


async def scraped(asked: Asked) -> Response:
    """The metrics of all agents. If the store does not answer, only those of this server, with that fact."""
    asked.caller.check_agent(None)
    serving = asked.serving
    stored = await serving.figures.families()
    return Response(exposition([*(stored or ()), *_own(serving, up=stored is not None)]), media_type=MEDIA_TYPE)


def _own(serving: Serving, *, up: bool) -> Iterator[Family]:
    yield Family(metrics.STORE_UP, {(): float(up)})
    yield from families(serving.counts.standing(), (metrics.REQUESTS, metrics.REQUEST_S))
    yield Family(metrics.IN_PROGRESS, {(): len(serving.requests)})
    yield Family(metrics.LISTENERS, {(): len(serving.streams)})
    plain, scripts = families(serving.figures.asked.standing(), (metrics.REDIS_S, metrics.SCRIPT_S))
    found = dict(scripts.values)
    if () in plain.values:
        found[PLAIN,] = plain.values[()]
    yield Family(metrics.SERVER_REDIS_S, found)


OPERATIONS = (
    Operation(
        "GET",
        "/metrics",
        "metrics",
        "Metrics for Prometheus, in its text format.",
        scraped,
        text=True,
        scope=AccessScope.ADMIN,
    ),
)
