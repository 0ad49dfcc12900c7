"""Work that is done once for many waiting callers."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """At most one run of `work` at a time, shared by all its callers; it continues if a caller stops waiting."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None

    @property
    def under_way(self) -> bool:
        """Whether a run is under way."""
        return self._task is not None and not self._task.done()

    async def result(self) -> T:
        """The result (or exception) of the run that is under way, else of a new one."""
        return await asyncio.shield(self.begin())

    def begin(self) -> "asyncio.Task[T]":
        """The task of the run that is under way, else of a new one."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
            # A retrieved error is not reported by asyncio when all callers have stopped waiting.
            self._task.add_done_callback(lambda task: None if task.cancelled() else task.exception())
        return self._task

    async def close(self) -> None:
        """Cancel the run that is under way, and wait for its end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
