"""Threads for blocking callbacks, with a count of the threads held by callbacks that nobody waits for any more."""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

_T = TypeVar("_T")


def end_within(seconds: float) -> None:
    """End this process after so many seconds at the latest: a held thread keeps the interpreter from ending by itself."""
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()


class Threads(ThreadPoolExecutor):
    """A pool of threads. A caller may stop waiting; the thread is held until the function returns, if it ever does."""

    def __init__(self, most: int, name: str) -> None:
        super().__init__(most, thread_name_prefix=name)
        self._held: set[Future[Any]] = set()

    @property
    def held(self) -> int:
        """How many threads run functions that nobody waits for any more."""
        return len(self._held)

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """See `Executor.submit`."""
        future: Future[_T] = super().submit(fn, *args, **kwargs)
        cancel = future.cancel

        def given_up() -> bool:
            if cancel():
                return True
            if not future.done():
                self._held.add(future)
                future.add_done_callback(self._held.discard)
            return False

        future.cancel = given_up  # type: ignore[method-assign] # asyncio cancels a future that nobody waits for any more
        return future

    async def run(self, function: Callable[..., _T], /, *args: Any) -> _T:
        """Run the function in one of the threads, with the caller's contextvars; its result."""
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self, lambda: context.run(function, *args))
