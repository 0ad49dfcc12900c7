"""The store's clock as an actor tells it: what the store said last, and the time that has passed here since."""

from collections.abc import Callable


class StoreClock:
    """Integer milliseconds UTC; it never goes back, whatever the wall clocks of this machine and of the store do.

    Args:
        clock: Milliseconds since whatever moment, by a clock that nobody sets.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._offset = 0
        self._latest = 0

    def heard(self, now: int) -> None:
        """Note what the store's clock says."""
        self._offset = now - self._clock()

    def now(self) -> int:
        """The time by the store's clock."""
        self._latest = max(self._latest, self.at(self._clock()))
        return self._latest

    def at(self, moment: int) -> int:
        """The time by the store's clock at a moment of this machine's."""
        return moment + self._offset
