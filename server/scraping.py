"""`/metrics`: the metrics of the namespace and of this server, in the text format of Prometheus, version 0.0.4."""

from collections.abc import Iterable, Iterator, Sequence

from starlette.responses import Response

from holdfast import metrics
from holdfast.client.access import AccessScope
from holdfast.counting import families
from holdfast.metrics import Distribution, Family, Metric, Value

from .operation import Asked, Operation, Serving

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_HELP = str.maketrans({"\\": "\\\\", "\n": "\\n"})
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


def exposition(families: Iterable[Family]) -> str:
    """The text of metrics. A metric without values still has its help and type, so that its name is known."""
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    metric = family.metric
    yield f"# HELP {metric.name} {metric.help.translate(_HELP)}"
    yield f"# TYPE {metric.name} {metric.type.value}"
    for labels, value in sorted(family.values.items()):
        yield from _samples(metric, list(zip(metric.labels, labels, strict=True)), value)


def _samples(metric: Metric, labels: Sequence[tuple[str, str]], value: Value) -> Iterator[str]:
    if not isinstance(value, Distribution):
        yield _sample(metric.name, labels, value)
        return
    total = 0
    for bound, count in zip((*map(_number, metric.bounds), "+Inf"), value.buckets, strict=True):
        total += count
        yield _sample(f"{metric.name}_bucket", [*labels, ("le", bound)], total)
    yield _sample(f"{metric.name}_sum", labels, value.sum)
    yield _sample(f"{metric.name}_count", labels, total)


def _sample(name: str, labels: Sequence[tuple[str, str]], value: float) -> str:
    inside = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in labels)
    return f"{name}{{{inside}}} {_number(value)}" if inside else f"{name} {_number(value)}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


OPERATIONS = (
    Operation(
        "GET",
        "/metrics",
        scraped,
        AccessScope.ADMIN,
        name="metrics",
        summary="Metrics for Prometheus, in its text format.",
        reply=str,
    ),
)
