"""The store's clock, as a process estimates it between two readings."""

import time
from collections.abc import Callable

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_ms() -> int:
    """This machine's clock in ms: monotonic, and not stopped while the machine sleeps."""
    return time.clock_gettime_ns(_STEADY) // 1_000_000


HEARD_MS = 10_000
"""Ms for which a reading of the store's clock is good."""


class StoreClock:
    """The store's clock in ms UTC, estimated from its last reading. It never goes back, whatever wall clocks do."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._offset = 0
        self._latest = 0
        self._heard_at: int | None = None

    def heard(self, now: int) -> None:
        """Take a reading of the store's clock."""
        self._heard_at = self._clock()
        self._offset = now - self._heard_at

    @property
    def fresh(self) -> bool:
        """Whether it was read within `HEARD_MS`."""
        return self._heard_at is not None and self._clock() - self._heard_at < HEARD_MS

    def now(self) -> int:
        """The time by the store's clock."""
        self._latest = max(self._latest, self.at(self._clock()))
        return self._latest

    def at(self, moment: int) -> int:
        """The time by the store's clock at a moment of the actor's clock."""
        return moment + self._offset
