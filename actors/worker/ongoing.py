"""Tasks in this process, by key: a caller with the key of a running task joins it."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class Ongoing(Generic[_T]):
    """Tasks by key. A key holds all that determines the outcome, so that different work never shares a task."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[_T]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._tasks

    def joined(self, key: Hashable, begin: Callable[[], Coroutine[Any, Any, _T]]) -> asyncio.Task[_T]:
        """The task under the key, begun if there is none."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(begin())
            task.add_done_callback(lambda done: self._over(key, done))
        return task

    def cancel_all(self) -> None:
        """Cancel all tasks, and forget them at once."""
        while self._tasks:
            self._tasks.popitem()[1].cancel()

    def _over(self, key: Hashable, done: asyncio.Task[_T]) -> None:
        if self._tasks.get(key) is done:
            del self._tasks[key]
        if not done.cancelled():
            done.exception()  # asyncio would report an error that no caller awaits
