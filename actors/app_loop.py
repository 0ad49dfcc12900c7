"""The thread on which the app's own code runs, with an event loop of its own.

What blocks there blocks neither the worker's model calls nor its claims, and every bound holds: who waits stops waiting.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any, Self, TypeVar

from holdfast.agent import App

THREADS = 128
"""How many blocking callbacks run side by side."""
LEFT = THREADS // 2
"""After how many that passed their bounds, and may never return, there are new threads."""

_T = TypeVar("_T")


class AppLoop:
    """One loop in one thread, with the app's lifespan entered on it."""

    def __init__(self) -> None:
        self.resources: Any = None
        self.left = 0
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self._threads = self._new_threads()
        threading.Thread(target=self._loop.run_forever, name="holdfast-app", daemon=True).start()

    @classmethod
    async def open(cls, app: App) -> Self:
        """A loop with the app's resources.

        Raises:
            Exception: Whatever the lifespan raised.
        """
        opened = cls()
        try:
            opened.resources = await opened.run(opened._stack.enter_async_context(app.resources()))
        except BaseException:
            opened._loop.call_soon_threadsafe(opened._loop.stop)
            raise
        return opened

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """What the work returns, run on that loop. Cancelled, it is left at once, whether or not the work heeds it."""
        try:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                self._leave()
            raise

    def _leave(self) -> None:
        """Note that a work is left, and may go on here for as long as the process lives; it may keep a thread for as long."""
        self.left += 1
        if self.left % LEFT == 0:
            before, self._threads = self._threads, self._new_threads()
            before.shutdown(wait=False)  # those that are not held end

    def _new_threads(self) -> ThreadPoolExecutor:
        threads = ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast-tool")
        self._loop.set_default_executor(threads)
        return threads

    async def answers(self, within_s: float) -> bool:
        """Whether the loop turns: false if something blocks it for so long."""
        turning = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)
        try:
            async with asyncio.timeout(within_s):
                await asyncio.wrap_future(turning)
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Leave the lifespan."""
        await self.run(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
