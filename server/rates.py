"""Rate limits: a token bucket for each name, in a table of bounded size."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

MOST = 10_000
"""How many names are remembered; forgetting the least recently seen one can only allow more."""


class Rates:
    """Token buckets by name: each gets `per_s` tokens a second, and holds `burst` at most. `clock` gives seconds."""

    def __init__(self, per_s: float, burst: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, name: Hashable, count: int = 1) -> float:
        """Take some tokens: 0 if there were enough, else the seconds until there are."""
        left, now = self._now(name)
        if left < count:
            return (count - left) / self._per_s
        self._leave(name, left - count, now)
        return 0.0

    def spend(self, name: Hashable, count: int) -> None:
        """Take some tokens after the fact; missing ones are owed."""
        left, now = self._now(name)
        self._leave(name, left - count, now)

    def wait_s(self, name: Hashable) -> float:
        """The seconds until there is a token; 0 if there is one."""
        return max((1 - self._now(name)[0]) / self._per_s, 0.0)

    def _leave(self, name: Hashable, left: float, now: float) -> None:
        self._left[name] = left, now
        self._left.move_to_end(name)
        if len(self._left) > MOST:
            self._left.popitem(last=False)

    def _now(self, name: Hashable) -> tuple[float, float]:
        now = self._clock()
        left, at = self._left.get(name, (self._burst, now))
        return min(left + (now - at) * self._per_s, self._burst), now
