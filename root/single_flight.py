"""Work that many wait for and that is done once."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Each who waits may give up; the work goes on for the others, and for whoever comes next.

    Args:
        work: Makes the work anew; it is begun when somebody waits and none is under way.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None

    @property
    def under_way(self) -> bool:
        """Whether the work goes on right now."""
        return self._task is not None and not self._task.done()

    async def result(self) -> T:
        """What the work that is under way leads to; it is begun if none is."""
        return await asyncio.shield(self.begin())

    def begin(self) -> "asyncio.Task[T]":
        """Begin the work, unless it is under way."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
            self._task.add_done_callback(_retrieved)
        return self._task

    async def close(self) -> None:
        """Give the work up."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _retrieved(task: "asyncio.Task[Any]") -> None:
    """Note the error, which nobody may wait for any more."""
    if not task.cancelled():
        task.exception()
