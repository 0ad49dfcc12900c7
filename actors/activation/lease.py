"""The lease: the time for which an activation may work. Each write grants it anew; after its end another may take over."""

import asyncio


class Lease:
    """A lease of a fixed length, measured by the event loop's clock."""

    def __init__(self, lease_ms: int) -> None:
        self._length_s = lease_ms / 1000
        self._until_s = 0.0
        self._given = asyncio.Event()

    @property
    def held(self) -> bool:
        """Whether the lease is not over."""
        return now_s() < self._until_s

    def granted(self, asked_at_s: float) -> None:
        """Note that the store granted the lease; its time counts from before the request was sent."""
        self._until_s = asked_at_s + self._length_s
        self._given.set()

    async def ended(self) -> None:
        """Return once the lease is over, which had been granted since the last time: a conversation that rests has none."""
        await self._given.wait()
        while (left_s := self._until_s - now_s()) > 0:  # noqa: ASYNC110 - a write in between prolongs the lease
            await asyncio.sleep(left_s)
        self._given.clear()


def now_s() -> float:
    """The time by the event loop's clock, in seconds."""
    return asyncio.get_running_loop().time()
