"""Whether new work may begin: the pauses as a process has read them, and how old that reading may be."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from holdfast.backoff import now_s
from holdfast.errors import CorruptStore, StoreUnavailable
from holdfast.persistence import PAUSE_LAG_MS, Paused, Pausing
from holdfast.single_flight import SingleFlight

from .workers import WorkPaused

LAG_S = PAUSE_LAG_MS / 1000
FRESH_S = LAG_S / 2
"""Seconds for which a reading is reused. Work that begins has the rest of `LAG_S` to reach the store, or the model."""
TRIES = 3
"""How often a caller reads anew if the reading is old by the time that this process comes to it."""
LOOK_S = 1.0
"""Seconds between looks whether a pause is over."""


class Readings:
    """Repeated readings from the store: concurrent callers share a reading, which is reused for `FRESH_S`.

    `what`, for the error message: what is unknown without a reading of the last `LAG_S` seconds; None: an older one suffices.
    """

    def __init__(self, read: Callable[[], Awaitable[None]], what: str | None) -> None:
        self._read = read
        self._what = what
        self._asked_at_s = float("-inf")
        self._reading = SingleFlight(self._look)

    async def fresh(self) -> None:
        """Return once a fresh reading exists; raises `StoreUnavailable` if reading took too long."""
        for _ in range(TRIES):
            if now_s() - self._asked_at_s < FRESH_S:
                return
            await self._reading.result()
            if self._what is None or now_s() - self._asked_at_s < LAG_S:
                return
        raise StoreUnavailable(f"it took too long to find out {self._what}")

    async def _look(self) -> None:
        asked_at_s = now_s()  # it is read at some moment after this
        await self._read()
        self._asked_at_s = asked_at_s


class Admission:
    """One process's view of the pauses; without one, no work may begin."""

    def __init__(self, store: Pausing) -> None:
        self._store = store
        self._seen = Paused(0)
        self._readings = Readings(self._look, "whether new work is paused")

    async def admit(self, agent: str) -> int:
        """Admit a piece of an agent's new work; returns the time by which it must begin, in ms UTC by the store's clock.

        Raises `WorkPaused` if the agent's new work is paused, and `StoreUnavailable` if that is unknown.
        """
        await self._readings.fresh()
        pause = self._seen.of(agent)
        if pause is not None:
            whose = "the namespace" if pause.agent is None else f"agent {pause.agent}"
            raise WorkPaused(f"the new work of {whose} is paused")
        return self._seen.now + PAUSE_LAG_MS

    async def reopened(self, agent: str) -> None:
        """Return once the agent's new work is no longer paused, as far as this process knows."""
        while True:
            await asyncio.sleep(LOOK_S * random.uniform(0.75, 1.25))  # noqa: S311 - jitter
            try:
                await self.admit(agent)
            except (WorkPaused, StoreUnavailable):
                continue
            return

    async def _look(self) -> None:
        try:
            self._seen = await self._store.paused()
        except CorruptStore as error:  # an unreadable pause is not the conversation's fault
            raise StoreUnavailable(f"whether new work is paused cannot be read ({error})") from None
