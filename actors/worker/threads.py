"""Threads for the app's blocking code: for bodies, and, shared fairly among agents, for functions about calls."""

import asyncio
import contextlib
import contextvars
import os
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

_T = TypeVar("_T")


def end_within(seconds: float) -> None:
    """End this process after this many seconds at the latest: a held thread would keep the interpreter alive."""
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
        """How many threads run functions whose callers have stopped waiting."""
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


SHARE = 3
"""How many threads one agent may hold per free thread: a lone agent gets three quarters of all, several each get less."""


class NoThread(TimeoutError):
    """No thread came free for the agent's function in time; the function did not begin."""


class RuleThreads:
    """Threads for the functions of several agents.

    An abandoned function's thread is replaced by a spare one, so that other agents lose none. It counts against its agent's
    share until the function returns.
    `left` counts the abandoned functions, including those that have ended since.
    """

    def __init__(self, most: int, spare: int) -> None:
        self.left = 0
        self._most, self._spare = most, spare
        self._threads = ThreadPoolExecutor(most + spare, thread_name_prefix="holdfast-rule")
        self._waited_for: Counter[str] = Counter()  # by agent
        self._held: Counter[str] = Counter()
        self._line: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def held(self) -> int:
        """How many threads run abandoned functions."""
        return self._held.total()

    async def run(self, agent: str, function: Callable[[], _T], left_s: Callable[[], float], *, wait_s: float) -> _T:
        """Run a function of an agent in a thread, with the caller's contextvars; its result, or its error.

        Raises `NoThread` if no thread came free in time, and TimeoutError if the function did not return in time.
        """
        await self._enter(agent, wait_s)
        begun: Future[Any] | None = None
        try:
            begun = self._threads.submit(contextvars.copy_context().run, function)
            returned: asyncio.Future[_T] = asyncio.wrap_future(begun)
            try:
                while not returned.done():
                    if (rest_s := left_s()) <= 0:
                        raise TimeoutError
                    await asyncio.wait({returned}, timeout=rest_s)
                return returned.result()
            finally:
                returned.cancel()
        finally:
            self._leave(agent, begun)

    def shutdown(self) -> None:
        """End the threads that no function holds."""
        self._threads.shutdown(wait=False)

    async def _enter(self, agent: str, wait_s: float) -> None:
        if agent not in self._line and self._has_room(agent):
            self._waited_for[agent] += 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._line.setdefault(agent, deque()).append(waiter)
        try:
            async with asyncio.timeout(wait_s):
                await waiter
        except (TimeoutError, asyncio.CancelledError) as error:
            if waiter.done() and not waiter.cancelled():
                self._leave(agent, None)
            elif waiter in (line := self._line.get(agent, deque())):
                line.remove(waiter)
                if not line:
                    del self._line[agent]
            if isinstance(error, TimeoutError):
                raise NoThread(f"no thread came free for a function of agent {agent!r} within {wait_s:g} s") from None
            raise

    def _has_room(self, agent: str) -> bool:
        free = self._most - self._waited_for.total() - max(self._held.total() - self._spare, 0)
        return self._holds(agent) < SHARE * free

    def _holds(self, agent: str) -> int:
        return self._waited_for[agent] + self._held[agent]

    def _leave(self, agent: str, begun: "Future[Any] | None") -> None:
        self._waited_for[agent] -= 1
        if begun is not None and not (begun.cancelled() or begun.done()):
            self.left += 1
            self._held[agent] += 1
            loop = asyncio.get_running_loop()

            def returned(_: "Future[Any]") -> None:
                with contextlib.suppress(RuntimeError):  # the loop is closed: this process ends
                    loop.call_soon_threadsafe(self._given_back, agent)

            begun.add_done_callback(returned)
        self._let_in()

    def _given_back(self, agent: str) -> None:
        self._held[agent] -= 1
        self._let_in()

    def _let_in(self) -> None:
        """Let waiting callers through: among agents with room, the one that holds the fewest threads first."""
        while open_to := [agent for agent in self._line if self._has_room(agent)]:
            agent = min(open_to, key=self._holds)
            waiter = self._line[agent].popleft()
            if not self._line[agent]:
                del self._line[agent]
            if not waiter.done():
                self._waited_for[agent] += 1
                waiter.set_result(None)
        self._waited_for, self._held = +self._waited_for, +self._held
