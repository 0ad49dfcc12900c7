"""The thread with the event loop for the app's async code, and the threads for the app's blocking code.

App code that blocks there blocks neither the worker's model calls nor its claims, and every time limit holds: the worker stops
waiting. Three thread pools serve bodies, the app's functions about calls, and functions that async bodies hand to threads.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import Any, Self, TypeVar

from holdfast.agent import App

from .asking import FUNCTION_S, JUDGING_S, Ask, Asking
from .threads import NoThread, RuleThreads, Threads

logger = logging.getLogger("holdfast.worker")

THREADS = 128
"""How many blocking callbacks run side by side."""
RULES = 32
"""How many of the app's functions about calls run side by side: validators, `prompt=`, `approval=` and the like."""
LEFT = THREADS // 2
"""How many callbacks may outlive their time limits, keeping their threads, before new work needs another process."""
OPENING_S = 300.0
"""Seconds that the app's lifespan may take to open."""

_T = TypeVar("_T")


class _Work:
    given_up = False


class AppLoop:
    """One loop in one thread, with the app's lifespan entered on it."""

    def __init__(self) -> None:
        self.resources: Any = None
        self._left = 0
        self._bodies = Threads(THREADS + LEFT, "holdfast-tool")
        self._rules = RuleThreads(RULES, LEFT)
        self._app = Threads(THREADS + LEFT, "holdfast-app")
        self._going: set[_Work] = set()
        self._users = 0
        self._turning: Future[None] | None = None
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(self._app)
        self._stack = AsyncExitStack()
        threading.Thread(target=self._turn, name="holdfast-app", daemon=True).start()

    @classmethod
    async def open(cls, app: App) -> Self:
        """A new loop on which the app's lifespan is entered; raises its error, or TimeoutError after `OPENING_S`."""
        opened = cls()
        try:
            async with asyncio.timeout(OPENING_S) as bound:
                opened.resources = await opened.run(opened._stack.enter_async_context(app.resources()))
        except BaseException as error:
            opened._end()
            if isinstance(error, TimeoutError) and bound.expired():
                raise TimeoutError(f"the app's lifespan did not open within {OPENING_S:g} s") from None
            raise
        return opened

    @property
    def left(self) -> int:
        """How many callbacks exceeded their time limits here, including those that have ended since."""
        return self._left + self._rules.left

    @property
    def held(self) -> int:
        """How many abandoned callbacks still run here, or keep a thread."""
        given_up = sum(work.given_up for work in tuple(self._going))
        return given_up + self._bodies.held + self._rules.held + self._app.held

    @property
    def idle(self) -> bool:
        """Whether no app code runs here, or is about to."""
        return not (self._users or self._going or self.held)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Keep the loop from counting as idle."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run the work on this loop; its result. A cancelled caller stops waiting at once, even if the work goes on."""
        mark = _Work()
        try:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._carried(work, mark), self._loop))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                self._left += 1
                mark.given_up = True
            raise

    async def in_thread(self, function: Callable[..., _T], /, *args: Any) -> _T:
        """Run a plain function in a thread for bodies; its result."""
        return await self._bodies.run(function, *args)

    async def asked(self, agent: str, what: str, function: Callable[[], _T], otherwise: _T) -> _T:
        """The answer of one of an agent's functions about a call; `otherwise` if it fails, finds no thread or does not answer.

        The wait for a thread and for the answer take `FUNCTION_S` each at most; `what` names the function in the log.
        """
        attempt = Asking().attempt(2 * FUNCTION_S)  # one `FUNCTION_S` to get a thread, one to answer
        try:
            return await self._rules.run(
                agent, partial(attempt.about(0), what, function, otherwise), attempt.left_s, wait_s=FUNCTION_S
            )
        except NoThread as error:
            logger.warning("%s was not asked: %s", what, error)
        except TimeoutError:
            attempt.give_up()
        return otherwise

    async def judged(self, agent: str, judge: Callable[[Callable[[int], Ask]], _T]) -> _T:
        """The judgement of an agent's calls, which asks the app's functions; it ends in time, whatever they do.

        `judge` runs in a thread, given a function from a call's number to its `Ask`. If one of the app's functions hangs, it is
        called again in another thread, with the answers so far.
        """
        now_s = asyncio.get_running_loop().time
        until_s, asking = now_s() + JUDGING_S, Asking()
        with self.used():
            while (rest_s := until_s - now_s()) > 0:
                attempt = asking.attempt(rest_s)
                try:
                    return await self._rules.run(agent, partial(judge, attempt.about), attempt.left_s, wait_s=rest_s)
                except NoThread as error:
                    logger.warning("%s", error)
                except TimeoutError:
                    attempt.give_up()
        return await asyncio.to_thread(judge, asking.known)

    async def answers(self, within_s: float) -> bool:
        """Whether the loop answers within `within_s` seconds; false if app code blocks it."""
        if self._turning is None or self._turning.done():
            self._turning = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)
        try:
            async with asyncio.timeout(within_s):
                await asyncio.shield(asyncio.wrap_future(self._turning))
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Leave the app's lifespan and end the loop."""
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
        self._rules.shutdown()
        for threads in (self._bodies, self._app):
            threads.shutdown(wait=False)  # ends the threads that no callback holds
