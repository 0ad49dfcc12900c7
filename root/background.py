"""Background tasks of an object."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

logger = logging.getLogger("holdfast")


class Background:
    """Background tasks, kept alive here: an event loop holds them weakly. Their errors are logged at debug level."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start a task."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    async def close(self, *, wait_s: float = 0.0) -> None:
        """Cancel the tasks that still run after `wait_s` seconds."""
        if self._tasks and wait_s:
            await asyncio.wait(self._tasks, timeout=wait_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _over(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.debug("work in the background failed: %r", error)
