"""Pauses between tries that grow."""

import asyncio
import random


class Backoff:
    """The pauses of one loop that tries again: each may be twice as long as the one before, up to the longest.

    `tenacity` and `backoff` repeat a function that raises; most loops here also go on after answers, and need the pause alone.

    Args:
        first_s: The first pause.
        longest_s: The longest one.
        jitter: How much of each pause is left to chance, from 0 (nothing) to 1.
    """

    __slots__ = ("_first_s", "_jitter", "_longest_s", "pause_s")

    def __init__(self, first_s: float, longest_s: float, *, jitter: float = 0.0) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._jitter = jitter
        self.pause_s = first_s
        """The next pause, at most."""

    def next_s(self) -> float:
        """The next pause, for a loop that sees to it by itself; the one after it may be twice as long."""
        pause_s, self.pause_s = self.pause_s, min(2 * self.pause_s, self._longest_s)
        return pause_s * random.uniform(1 - self._jitter, 1) if self._jitter else pause_s  # noqa: S311 - jitter

    async def sleep(self, *, at_least_s: float = 0.0) -> None:
        """Pause."""
        await asyncio.sleep(max(self.next_s(), at_least_s))

    def reset(self) -> None:
        """Begin with the first pause again."""
        self.pause_s = self._first_s


def now_s() -> float:
    """The time by the event loop's clock, in seconds."""
    return asyncio.get_running_loop().time()
