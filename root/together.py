"""Work that is done at once for all who ask for it in the same turn of the event loop."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")
R = TypeVar("R")


class Together(Generic[K, A, R]):
    """Calls with the same key in one turn of the event loop, up to `most`, are one call of `work`.

    `work` gets the key and what was asked, and returns a result or an exception for each, in that order. It goes on if a caller
    stops waiting.
    """

    def __init__(self, work: Callable[[K, Sequence[A]], Awaitable[Sequence[R | Exception]]], *, most: int) -> None:
        self._work = work
        self._most = most
        self._gathering: dict[K, tuple[list[A], asyncio.Task[Sequence[R | Exception]]]] = {}

    async def result(self, key: K, one: A) -> R:
        """The result of `work` for this caller, or its exception."""
        asked, task = self._gathering.get(key) or self._begun(key)
        asked.append(one)
        place = len(asked) - 1
        if len(asked) >= self._most:
            del self._gathering[key]
        found = (await asyncio.shield(task))[place]
        if isinstance(found, Exception):
            raise found
        return found

    def _begun(self, key: K) -> tuple[list[A], asyncio.Task[Sequence[R | Exception]]]:
        asked: list[A] = []
        task = asyncio.create_task(self._done(key, asked))
        task.add_done_callback(lambda done: None if done.cancelled() else done.exception())  # all callers may have left
        self._gathering[key] = asked, task
        return asked, task

    async def _done(self, key: K, asked: list[A]) -> Sequence[R | Exception]:
        if self._gathering.get(key, (None,))[0] is asked:
            del self._gathering[key]
        return await self._work(key, asked)
