"""A clock that stands still until it is moved, and the bounds that it measures."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

START_MS = 1_767_225_600_000
"""The first moment of the clock: 2026-01-01T00:00:00Z."""


class MovedClock:
    """A clock in integer milliseconds UTC, from `START_MS` on; it calls `changed` when a bound begins or ends."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._now = START_MS
        self._changed = changed
        self._bounds: dict[asyncio.Timeout, tuple[str, int | None]] = {}

    def __call__(self) -> int:
        """The time."""
        return self._now

    @property
    def bounded_effects(self) -> frozenset[str]:
        """The ids of the effects that are under way within their bounds."""
        ending = {effect_id for effect_id, until in self._bounds.values() if until is None}
        return frozenset(effect_id for effect_id, _ in self._bounds.values()) - ending

    @property
    def due_at(self) -> int | None:
        """The moment at which the first bound ends; None if nothing is bounded."""
        return min((until for _, until in self._bounds.values() if until is not None), default=None)

    def move(self, moment: int) -> None:
        """Set the clock forward, and end the bounds that are over by then."""
        self._now = max(self._now, moment)
        for bound, (effect_id, until) in list(self._bounds.items()):
            if until is not None and until <= self._now:
                self._bounds[bound] = (effect_id, None)  # its effect counts as unsettled until it has left the bound
                bound.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def bounded(self, effect_id: str, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        """Bound an effect as `asyncio.timeout` does, by the loop's clock or by this one, whichever comes first."""
        async with asyncio.timeout(seconds) as bound:
            self._bounds[bound] = (effect_id, self._now + round(seconds * 1000))
            self._changed()
            try:
                yield bound
            finally:
                self._bounds.pop(bound, None)
                self._changed()
