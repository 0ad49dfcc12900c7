"""The time for which an activation may work: each write grants it anew, and after it others may take over."""

import asyncio


class Lease:
    """A lease of some milliseconds, by the loop's clock."""

    def __init__(self, lease_ms: int) -> None:
        self._length_s = lease_ms / 1000
        self._until_s = 0.0

    @property
    def held(self) -> bool:
        """Whether it is not over."""
        return now_s() < self._until_s

    def granted(self, asked_at_s: float) -> None:
        """Note that it was granted; it counts from before it was asked for."""
        self._until_s = asked_at_s + self._length_s

    async def ended(self) -> None:
        """Return once it is over."""
        while (left_s := self._until_s - now_s()) > 0:  # noqa: ASYNC110 - a write in between makes it longer
            await asyncio.sleep(left_s)


def now_s() -> float:
    """The loop's clock."""
    return asyncio.get_running_loop().time()
