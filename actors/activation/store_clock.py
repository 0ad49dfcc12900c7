"""The store's clock as an actor reckons it: the time that the store said last, and the time that has passed here since."""

from collections.abc import Callable


class StoreClock:
    """A clock in integer milliseconds UTC that never goes back, whatever the wall clocks of this machine and of the store do.

    Args:
        clock: A clock that nobody sets, in milliseconds since an arbitrary moment.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._offset = 0
        self._latest = 0

    def heard(self, now: int) -> None:
        """Note the time that the store's clock says now, in ms UTC."""
        self._offset = now - self._clock()

    def now(self) -> int:
        """The time by the store's clock."""
        self._latest = max(self._latest, self.at(self._clock()))
        return self._latest

    def at(self, moment: int) -> int:
        """The time by the store's clock at a moment that the actor's clock has shown."""
        return moment + self._offset
