"""The metrics of a namespace, read from its store at most every few seconds, however often they are asked for."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence

from holdfast import metrics
from holdfast.conversation import Status
from holdfast.conversation.log.owed import shown_target
from holdfast.counting import SERIES, families
from holdfast.errors import HoldfastError
from holdfast.metrics import OTHER, Family, Metric, Value
from holdfast.persistence import OpenBreakers, OwedFigures, Store, Survey

from .async_client import AsyncClient
from .stack_gateway import at_stack

logger = logging.getLogger("holdfast.client")

FRESH_S = 5.0
"""How old the metrics may be, in seconds: a storm of scrapes costs the store one read."""
LATE_MS = 60_000
"""Milliseconds after its moment of attention from which a conversation is overdue."""
RAY_S = 3.0
"""How many seconds Ray may take to name the workers; after that, their number is left out."""


class Figures:
    """The metrics of a client's namespace: counts from all its processes, and figures from the store and Ray."""

    def __init__(self, client: AsyncClient) -> None:
        self._connection = at_stack(client.gateway)
        self.asked = self._connection.stack.counts
        """This client's own counts of its requests to Redis."""
        self._reading = asyncio.Lock()
        self._read_at = float("-inf")
        self._found: list[Family] | None = None

    async def families(self) -> list[Family] | None:
        """The metrics, up to `FRESH_S` old; None if the store does not answer."""
        async with self._reading:
            now = asyncio.get_running_loop().time()
            if now - self._read_at >= FRESH_S:
                try:
                    self._found = await self._read()
                except HoldfastError as error:
                    logger.warning("the metrics cannot be read: %s", error)
                    self._found = None
                self._read_at = asyncio.get_running_loop().time()
            return self._found

    async def _read(self) -> list[Family]:
        read = self._connection.read
        survey = await read(lambda store: store.survey())
        values = await read(lambda store: _values(store, survey))
        limits = self._connection.stack.settings.process_limits
        values |= {metrics.ACTORS_CAP: {(): limits.max_actors}, metrics.WORKERS_CAP: {(): limits.workers}}
        workers = await self._workers()
        if workers is not None:
            values[metrics.WORKERS] = {(): workers}
        return [
            *families(survey.counts, metrics.COUNTED),
            *(Family(metric, values[metric]) for metric in metrics.READ if metric in values),
        ]

    async def _workers(self) -> int | None:
        """How many workers live; None if this process has not joined Ray, or Ray does not say."""
        transport = self._connection.stack.ready
        if transport is None:
            return None
        try:
            async with asyncio.timeout(RAY_S):
                return await transport.workers()
        except (HoldfastError, TimeoutError) as error:
            logger.warning("the workers cannot be counted: %s", error)
            return None


async def _values(store: Store, survey: Survey) -> dict[Metric, Mapping[tuple[str, ...], Value]]:
    binding = await store.binding()
    single = {
        metrics.ACTORS: survey.actors,
        metrics.ACTORS_OFFERED: survey.offers,
        metrics.HOSTED: survey.hosted,
        metrics.HELD_BACK: survey.paused,
        metrics.PAUSES: len((await store.paused()).pauses),
        metrics.BROKEN: len(await store.broken_apps()),
        metrics.TROUBLED: len(await store.troubles()),
        metrics.ATTENTION: (await store.overdue(LATE_MS, limit=1)).count,
    }
    values: dict[Metric, Mapping[tuple[str, ...], Value]] = {metric: {(): value} for metric, value in single.items()}
    if binding is not None:
        values[metrics.SWEEPER_AGE] = {(): binding.age_ms / 1000}
    outbox = await store.outbox_figures()
    owed: dict[str, OwedFigures] = {}
    for lane, one in outbox.lanes.items():  # two apps may have targets of one name
        owed[shown_target(lane)] = owed.get(shown_target(lane), OwedFigures()).and_of(one)
    waiting = {(agent or OTHER, kind.value): one for (agent, kind), one in survey.pending.items()}
    return values | {
        metrics.PENDING: {place: one.count for place, one in waiting.items()},
        metrics.OLDEST: {
            place: max(survey.now - one.since, 0) / 1000 for place, one in waiting.items() if one.since is not None
        },
        metrics.OWED: {(target,): one.queues for target, one in owed.items()},
        metrics.OWED_AGE: {
            (target,): max(outbox.now - one.since, 0) / 1000 for target, one in owed.items() if one.since is not None
        },
        metrics.BREAKERS_OPEN: _by_worker(await store.open_breakers()),
        metrics.SET_ASIDE: {(target,): one.set_aside for target, one in owed.items()},
        metrics.UNHOSTED: _by_status(survey.unhosted),
        metrics.OLDER: {(kind.value, str(age_s)): count for (kind, age_s), count in survey.older.items()},
        metrics.CONVERSATIONS: _by_status(survey.conversations),
    }


def _by_worker(found: Sequence[OpenBreakers]) -> dict[tuple[str, ...], Value]:
    """Counts by worker, model and state; those beyond `SERIES` of these as those of `other`."""
    counts = Counter[tuple[str, ...]]()
    for one in found:
        place = (one.worker, one.model, one.state)
        counts[place if len(counts) < SERIES else (OTHER, OTHER, one.state)] += one.count
    return dict(counts)


def _by_status(counts: Mapping[Status, int]) -> dict[tuple[str, ...], Value]:
    return {(status.value,): count for status, count in counts.items() if status is not Status.ABSENT}
