"""The thread on which the app's own code runs, with an event loop of its own, and the threads for what of it blocks.

What blocks there blocks neither the worker's model calls nor its claims, and every bound holds: who waits stops waiting.
Bodies, the app's rules for its calls, and what async bodies hand to threads themselves have threads of their own each.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Self, TypeVar

from holdfast.agent import App

from .threads import Threads

THREADS = 128
"""How many blocking callbacks run side by side."""
RULES = 32
"""How many of the app's rules and prompts run side by side."""
LEFT = THREADS // 2
"""How many works that passed their bounds may go on, and keep their threads, until another process is due."""
OPENING_S = 300.0
"""How long the app's lifespan may take to open."""

_T = TypeVar("_T")


class _Work:
    given_up = False


class AppLoop:
    """One loop in one thread, with the app's lifespan entered on it."""

    def __init__(self) -> None:
        self.resources: Any = None
        self.left = 0
        self._bodies = Threads(THREADS + LEFT, "holdfast-tool")
        self._rules = Threads(RULES + LEFT, "holdfast-rule")
        self._app = Threads(THREADS + LEFT, "holdfast-app")
        self._ruling = asyncio.Semaphore(RULES)
        self._going: set[_Work] = set()
        self._users = 0
        self._turning: Future[None] | None = None
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(self._app)
        self._stack = AsyncExitStack()
        threading.Thread(target=self._turn, name="holdfast-app", daemon=True).start()

    @classmethod
    async def open(cls, app: App) -> Self:
        """A loop with the app's resources.

        Raises:
            TimeoutError: The lifespan did not open within `OPENING_S`.
            Exception: Whatever the lifespan raised.
        """
        opened = cls()
        try:
            async with asyncio.timeout(OPENING_S) as bound:
                opened.resources = await opened.run(opened._stack.enter_async_context(app.resources()))
        except BaseException as error:
            opened._end()
            if isinstance(error, TimeoutError) and bound.expired():
                message = f"the app's lifespan did not open within {OPENING_S:g} s"
                raise TimeoutError(message) from None
            raise
        return opened

    @property
    def held(self) -> int:
        """How many works go on here, or keep a thread, though nobody waits for them any more."""
        given_up = sum(work.given_up for work in tuple(self._going))
        return given_up + self._bodies.held + self._rules.held + self._app.held

    @property
    def idle(self) -> bool:
        """Whether nothing of the app is at work here, or is about to be."""
        return not (self._users or self._going or self.held)

    @contextmanager
    def used(self) -> Iterator[None]:
        """As long as this lasts, the loop is not idle."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """What the work returns, run on that loop. Cancelled, it is left at once, whether or not the work heeds it."""
        mark = _Work()
        try:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._carried(work, mark), self._loop))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                self.left += 1
                mark.given_up = True
            raise

    async def in_thread(self, function: Callable[..., _T], /, *args: Any) -> _T:
        """What a plain function returns, run in a thread for bodies."""
        return await self._bodies.run(function, *args)

    async def ruled(self, rule: Callable[[], _T], within_s: float) -> _T:
        """What one of the app's own rules says, in a thread for rules; its bound begins when it does.

        Raises:
            TimeoutError: It did not return in time.
            Exception: Whatever it raised.
        """
        async with self._ruling:
            try:
                async with asyncio.timeout(within_s):
                    return await self._rules.run(rule)
            except (TimeoutError, asyncio.CancelledError):
                self.left += 1
                raise

    async def answers(self, within_s: float) -> bool:
        """Whether the loop turns: false if something blocks it for so long."""
        if self._turning is None or self._turning.done():
            self._turning = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)
        try:
            async with asyncio.timeout(within_s):
                await asyncio.shield(asyncio.wrap_future(self._turning))
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Leave the lifespan."""
        try:
            await self.run(self._stack.aclose())
        finally:
            self._end()

    async def _carried(self, work: Coroutine[Any, Any, _T], mark: _Work) -> _T:
        self._going.add(mark)
        try:
            return await work
        finally:
            self._going.discard(mark)

    def _turn(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        for threads in (self._bodies, self._rules, self._app):
            threads.shutdown(wait=False)  # those that are not held end
