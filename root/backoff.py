"""Growing pauses between retries."""

import asyncio
import random


class Backoff:
    """The growing pauses of one retry loop. `jitter` is the random share of each pause, from 0 to 1.

    `tenacity` and `backoff` repeat a function that raises. Most loops here also go on after answers, and need only the pause.
    """

    __slots__ = ("_first_s", "_jitter", "_longest_s", "pause_s")

    def __init__(self, first_s: float, longest_s: float, *, jitter: float = 0.0) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._jitter = jitter
        self.pause_s = first_s
        """The upper bound of the next pause."""

    def next_s(self) -> float:
        """The next pause, for a loop that sleeps by itself; the pause after it may be twice as long."""
        pause_s, self.pause_s = self.pause_s, min(2 * self.pause_s, self._longest_s)
        return pause_s * random.uniform(1 - self._jitter, 1) if self._jitter else pause_s  # noqa: S311 - jitter

    async def sleep(self, *, at_least_s: float = 0.0) -> None:
        """Sleep for the next pause."""
        await asyncio.sleep(max(self.next_s(), at_least_s))

    def reset(self) -> None:
        """Start again with the first pause."""
        self.pause_s = self._first_s


def now_s() -> float:
    """The time by the event loop's clock, in seconds."""
    return asyncio.get_running_loop().time()
