"""Growing pauses between retries, and the clocks of a process."""

import asyncio
import random
import time
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Backoff:
    """The growing pauses of one retry loop.

    `pause_s` is the upper bound of the next pause: set it to the first one to start again. `jitter` is the random share of each
    pause, from 0 to 1.

    `tenacity` and `backoff` repeat a function that raises. Most loops here also go on after answers, and need only the pause.
    """

    pause_s: float
    longest_s: float
    jitter: float = field(default=0.0, kw_only=True)

    def next_s(self) -> float:
        """The next pause, for a loop that sleeps by itself; the pause after it may be twice as long."""
        pause_s, self.pause_s = self.pause_s, min(2 * self.pause_s, self.longest_s)
        return pause_s * random.uniform(1 - self.jitter, 1) if self.jitter else pause_s  # noqa: S311 - jitter

    async def sleep(self, *, at_least_s: float = 0.0) -> None:
        """Sleep for the next pause."""
        await asyncio.sleep(max(self.next_s(), at_least_s))


def now_s() -> float:
    """The time by the event loop's clock, in seconds."""
    return asyncio.get_running_loop().time()


def wall_ms() -> int:
    """The time by this machine's wall clock, in ms UTC."""
    return time.time_ns() // 1_000_000
