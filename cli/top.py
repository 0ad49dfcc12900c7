"""`holdfast top`: the metrics on one screen, again and again. It needs Redis alone."""

import asyncio
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast import metrics
from holdfast.client.figures import FRESH_S, Figures
from holdfast.errors import InvalidInput, StoreUnavailable
from holdfast.metrics import Distribution, Family, Metric, Value

from .display import Said, clean, console, span, table
from .options import AsJson, Where
from .session import Session, within

if TYPE_CHECKING:
    from rich.console import RenderableType

SCHEMA = 1
"""The version of the `--json` output. Later releases may add metrics under the same number."""
ROWS = 12
_CHILDREN = (metrics.CHILDREN_STARTED, metrics.CHILDREN_ENDED)

Values = Mapping[Metric, Mapping[tuple[str, ...], Value]]


def run(
    where: Where,
    *,
    once: Annotated[bool, typer.Option("--once", help="Print the screen once, and end.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", help=f"Time between two looks; at least {FRESH_S:g} s.")] = FRESH_S,
    as_json: AsJson = False,
) -> None:
    """Show what waits, what runs and what was counted, until Ctrl-C; once, if standard output is no terminal.

    `--json` prints once all metrics that the store knows, as `/metrics` of `holdfast serve` does for Prometheus.
    """
    if not FRESH_S <= every <= 3600:  # noqa: PLR2004 - an hour
        raise InvalidInput("--every", f"{every:g} is no interval", f"give {FRESH_S:g} to 3600 seconds")
    if as_json or once or not sys.stdout.isatty():
        found = within(where, lambda on: _read(Figures(on.client)), Session)
        data = {"schema": SCHEMA, "metrics": as_plain(found)}
        Said(data, lambda: console().print(drawn(found, None, every))).write(as_json=as_json)
        return
    with contextlib.suppress(KeyboardInterrupt):
        within(where, lambda on: _live(Figures(on.client), every), Session)


async def _read(figures: Figures) -> list[Family]:
    found = await figures.families()
    if found is None:
        raise StoreUnavailable("the store does not answer")
    return found


async def _live(figures: Figures, every: float) -> None:
    from rich.live import Live  # noqa: PLC0415 - only a terminal needs it

    before = await _read(figures)
    with Live(drawn(before, None, every), console=console(), screen=True, auto_refresh=False) as live:
        while True:
            await asyncio.sleep(every)
            found = await figures.families()
            if found is None:
                live.update("The store does not answer; it is asked again.", refresh=True)
                continue
            live.update(drawn(found, before, every), refresh=True)
            before = found


def as_plain(families: Sequence[Family]) -> list[dict[str, Any]]:
    """The metrics as plain JSON values; a histogram's bucket counts are not cumulative."""
    return [
        {
            "name": family.metric.name,
            "type": family.metric.type.value,
            "values": [
                {"labels": dict(zip(family.metric.labels, labels, strict=True))} | _plain(family.metric, value)
                for labels, value in sorted(family.values.items())
            ],
        }
        for family in families
    ]


def _plain(metric: Metric, value: Value) -> dict[str, Any]:
    if not isinstance(value, Distribution):
        return {"value": value}
    bounds = [*metric.bounds, None]
    buckets = [{"up_to": bound, "count": count} for bound, count in zip(bounds, value.buckets, strict=True) if count]
    return {"count": sum(value.buckets), "sum": value.sum, "buckets": buckets}


def drawn(families: Sequence[Family], before: Sequence[Family] | None, every: float) -> "RenderableType":
    """The screen: totals, what waits, and the counters, in all and per minute since the last look."""
    from rich.console import Group  # noqa: PLC0415 - `--json` does without
    from rich.text import Text  # noqa: PLC0415 - as above

    values: Values = {family.metric: family.values for family in families}
    earlier: Values = {family.metric: family.values for family in before or ()}
    parts: list[Any] = [Text(line, no_wrap=True) for line in _head(values)]
    parts += [Text(), _waiting(values), *_passed_over(values), Text(), _counted(values, earlier if before else None, every)]
    return Group(*parts)


def _head(values: Values) -> Iterator[str]:
    def one(metric: Metric) -> str:
        found = values.get(metric, {}).get(())
        return "?" if found is None or isinstance(found, Distribution) else f"{found:g}"

    def each(metric: Metric) -> str:
        counts = sorted(values.get(metric, {}).items())
        return ", ".join(f"{count} {clean(status)}" for (status,), count in counts if count) or "none"

    started, ended = (sum(map(_total, values.get(one, {}).values())) for one in _CHILDREN)
    yield f"conversations  {each(metrics.CONVERSATIONS)}"
    yield f"delegated      {max(started - ended, 0):g} under way, {started:g} in all"
    yield (
        f"actors         {one(metrics.ACTORS)} of {one(metrics.ACTORS_CAP)}, {one(metrics.ACTORS_OFFERED)} on offer, "
        f"{one(metrics.HOSTED)} conversations hosted"
    )
    yield f"in no actor    {each(metrics.UNHOSTED)}"
    yield (
        f"attention      {one(metrics.ATTENTION)} overdue, {one(metrics.TROUBLED)} troubled, "
        f"{one(metrics.BROKEN)} apps broken, {one(metrics.PAUSES)} pauses, sweeper silent for {one(metrics.SWEEPER_AGE)} s"
    )


def _waiting(values: Values) -> "RenderableType":
    drawn_table = table("PENDING", "KIND", "CALLS", "OLDEST")
    oldest = values.get(metrics.OLDEST, {})
    for (agent, kind), count in sorted(values.get(metrics.PENDING, {}).items(), key=_by_count)[:ROWS]:
        age_s = oldest.get((agent, kind))
        age = span(round(age_s * 1000)) if isinstance(age_s, int | float) else "?"
        drawn_table.add_row(clean(agent), kind, f"{_total(count):g}", age)
    return drawn_table


def _passed_over(values: Values) -> "Sequence[RenderableType]":
    """The breakers that are not closed, if there are any."""
    from rich.text import Text  # noqa: PLC0415 - `--json` does without

    found = sorted(values.get(metrics.BREAKERS_OPEN, {}).items(), key=_by_count)
    if not found:
        return ()
    drawn_table = table("PASSED OVER", "BREAKER", "WORKER", "ROUTES")
    for (worker, model, state), count in found[:ROWS]:
        drawn_table.add_row(clean(model), clean(state), clean(worker), f"{_total(count):g}")
    more = len(found) - ROWS
    return (Text(), drawn_table, *([Text(f"and {more} more")] if more > 0 else []))


def _counted(values: Values, earlier: Values | None, every: float) -> "RenderableType":
    drawn_table = table("COUNTED", "OF", "IN ALL", "A MINUTE", "MEAN")
    turns = (metrics.TURNS, metrics.SETTLED, metrics.STALE, metrics.ACTIVATIONS)
    work = (metrics.MODEL_CALLS, metrics.PASSED_ON, metrics.BREAKERS, metrics.COST, metrics.RUNS)
    timed = (metrics.WAIT, metrics.RESOLVE_S, metrics.MODEL_FIRST_S, metrics.MODEL_S, metrics.RUN_S)
    for metric in (*turns, *work, *timed):
        for labels, value in sorted(values.get(metric, {}).items(), key=_by_count)[:ROWS]:
            count = _total(value)
            then = None if earlier is None else _total(earlier.get(metric, {}).get(labels, 0))
            rate = "" if then is None else f"{(count - then) * 60 / every:.1f}"
            mean_ms = value.sum / count * 1000 if isinstance(value, Distribution) and count else None
            mean = "" if mean_ms is None else span(round(mean_ms)) if mean_ms >= 1000 else f"{mean_ms:.0f} ms"  # noqa: PLR2004
            name = metric.name.removeprefix("holdfast_").removesuffix("_total")
            drawn_table.add_row(name, clean(" ".join(labels)), f"{count:g}", rate, mean)
    return drawn_table


def _by_count(entry: tuple[tuple[str, ...], Value]) -> tuple[float, tuple[str, ...]]:
    labels, value = entry
    return (-_total(value), labels)


def _total(value: Value) -> float:
    return sum(value.buckets) if isinstance(value, Distribution) else value
