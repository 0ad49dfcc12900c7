"""The deliveries that go on in a worker: quick ones that were asked for together are answered together."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from holdfast.actors.workers import DeliverAnswer, DeliverRequest

TOGETHER_S = 0.2
"""Seconds for which the answers to quick deliveries wait for those to slower ones."""
FETCHED_S = 60.0
"""Seconds after which nobody asks any more for an answer that came later; longer than a courier waits for it."""

Deliver = Callable[[DeliverRequest], Awaitable[DeliverAnswer]]


class Deliveries:
    """The deliveries that go on, or whose answers are still to be fetched."""

    def __init__(self) -> None:
        self._tasks: dict[DeliverRequest, asyncio.Task[DeliverAnswer]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    async def answers(self, requests: Sequence[DeliverRequest], deliver: Deliver) -> list[DeliverAnswer | Exception | None]:
        """The answers to requests, or errors. Of several, one that takes longer has None: ask for that one alone."""
        tasks = {one: self._tasks.get(one) or asyncio.create_task(_awaited(deliver, one)) for one in requests}
        self._tasks |= tasks
        late: set[asyncio.Task[DeliverAnswer]] = set()
        try:
            _, late = await asyncio.wait(tasks.values(), timeout=TOGETHER_S if len(tasks) > 1 else None)
        finally:
            for one, task in tasks.items():
                if task in late:
                    asyncio.get_running_loop().call_later(FETCHED_S, partial(self._forget, one, task))
                else:
                    self._forget(one, task)
        return [None if tasks[one] in late else _outcome(tasks[one]) for one in requests]

    def _forget(self, request: DeliverRequest, task: asyncio.Task[DeliverAnswer]) -> None:
        if self._tasks.get(request) is task:
            del self._tasks[request]


async def _awaited(deliver: Deliver, request: DeliverRequest) -> DeliverAnswer:
    return await deliver(request)


def _outcome(task: asyncio.Task[DeliverAnswer]) -> DeliverAnswer | Exception:
    error = task.exception()
    if error is not None and not isinstance(error, Exception):
        raise error
    return task.result() if error is None else error
