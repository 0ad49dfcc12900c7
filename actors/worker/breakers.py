"""Circuit breakers of models, in a worker's memory: a model that fails again and again is passed over for a while.

A breaker belongs to a route, the model's name with the address where it is called, whichever agent declares it. It is closed
(every try passes), open (none does) or, after its cooldown, half-open: so many probes at once pass, and each other try is
refused. A failed probe opens it anew, and an answer closes it. A try that began before the breaker opened decides nothing.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from holdfast import metrics
from holdfast.conversation.terms.models import Breaker
from holdfast.counting import LABEL, Counts
from holdfast.errors import StoreError
from holdfast.metrics import OTHER
from holdfast.persistence import Directory

logger = logging.getLogger("holdfast.worker")

Route: TypeAlias = tuple[str, str]
"""A model's name, and the address that the app declares for it; '' without one."""
MOST_ROUTES = 1000
"""How many routes are kept; beyond that, the oldest are forgotten."""
FORGOTTEN_S = 3600.0
"""Seconds after which a half-open breaker that nobody has tried is not shown any more."""
MOST_TOLD = 50
"""How many models with a state the store is told of; the breakers of others are told as those of `other`."""


class BreakerState(StrEnum):
    """Whether a model is asked."""

    CLOSED = "closed"  # every try passes
    OPEN = "open"  # no try passes
    HALF_OPEN = "half_open"  # probes pass


class PassedOver(Exception):
    """The breaker lets no try through; `for_s` says for how many seconds at least, 0 while probes are under way."""

    def __init__(self, for_s: float) -> None:
        super().__init__(for_s)
        self.for_s = for_s

    def __str__(self) -> str:
        if self.for_s <= 0:
            return "it failed again and again, and is being tried by another call (Breaker.probes)"
        return f"it failed again and again, and is not asked for another {self.for_s:.3g} s (Breaker.cooldown_s)"


@dataclass(slots=True)
class _Route:
    failures: int = 0
    changes: int = 0
    until_s: float | None = None
    probes: int = 0

    def state(self, now_s: float) -> BreakerState:
        if self.until_s is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now_s < self.until_s else BreakerState.HALF_OPEN


class Breakers:
    """The breakers of a worker; `clock` gives seconds that only rise."""

    def __init__(self, counts: Counts, clock: Callable[[], float] = time.monotonic) -> None:
        self._counts = counts
        self._clock = clock
        self._routes: dict[Route, _Route] = {}
        self._told = False

    def enter(self, route: Route, terms: Breaker | None) -> "Entered":
        """Let a try through.

        Raises:
            PassedOver: The model is passed over.
        """
        if terms is None:
            return Entered(self, route)
        found, now_s = self._of(route), self._clock()
        state = found.state(now_s)
        if state is BreakerState.OPEN:
            raise PassedOver((found.until_s or now_s) - now_s)
        if state is BreakerState.HALF_OPEN:
            if found.probes >= terms.probes:
                raise PassedOver(0)
            found.probes += 1
        return Entered(self, route, terms, found, found.changes, probes=state is BreakerState.HALF_OPEN)

    def shown(self) -> list[dict[str, str | float]]:
        """The breakers that are not closed: `model`, `state`, and for how many more seconds no try passes (`for_s`)."""
        now_s = self._clock()
        return [
            {"model": route[0], "state": one.state(now_s).value, "for_s": max(one.until_s - now_s, 0.0)}
            for route, one in self._routes.items()
            if one.until_s is not None and now_s - one.until_s < FORGOTTEN_S
        ]

    async def tell(self, store: Directory, worker: str, *, leaving: bool = False) -> None:
        """Note in the store how many breakers are not closed in this worker, as long as there are any and it is not leaving."""
        found = Counter[tuple[str, str]]()
        for one in () if leaving else self.shown():
            place = (str(one["model"])[:LABEL], str(one["state"]))
            found[place if place in found or len(found) < MOST_TOLD else (OTHER, place[1])] += 1
        if not found and not self._told:
            return
        try:
            await store.note_breakers(worker, found)
            self._told = bool(found)
        except StoreError as error:
            logger.debug("breakers are told later: %s", error)

    def settle(self, entered: "Entered", *, failed: bool | None) -> None:
        """Note the end of a try: it failed, was answered, or was left (None)."""
        found, terms = entered.of, entered.terms
        if found is None or terms is None or found.changes != entered.changes:
            return
        found.probes -= entered.probes
        if failed is None:
            return
        if not failed:
            was_open, found.failures, found.until_s = found.until_s is not None, 0, None
            if was_open:
                found.changes, found.probes = found.changes + 1, 0
                self._counts.add(metrics.BREAKERS, entered.route[0], BreakerState.CLOSED.value)
                logger.info("model %s answers again: its breaker is closed", entered.route[0])
            return
        found.failures += 1
        if entered.probes or found.failures >= terms.failures:
            found.changes, found.probes, found.until_s = found.changes + 1, 0, self._clock() + terms.cooldown_s
            self._counts.add(metrics.BREAKERS, entered.route[0], BreakerState.OPEN.value)
            said = "model %s failed %d times in a row: it is passed over for %g s"
            logger.warning(said, entered.route[0], found.failures, terms.cooldown_s)

    def _of(self, route: Route) -> _Route:
        if route not in self._routes and len(self._routes) >= MOST_ROUTES:
            del self._routes[next(iter(self._routes))]
        return self._routes.setdefault(route, _Route())


@dataclass(slots=True)
class Entered:
    """A try that a breaker let through. Its first end counts; without a breaker none does."""

    breakers: Breakers
    route: Route
    terms: Breaker | None = None
    of: _Route | None = None
    changes: int = 0
    probes: bool = False
    over: bool = False

    def ended(self, *, failed: bool | None) -> None:
        """The try failed, was answered, or was left (None): its caller no longer waits."""
        if not self.over:
            self.over = True
            self.breakers.settle(self, failed=failed)
