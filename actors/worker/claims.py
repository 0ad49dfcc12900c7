"""The claims of one worker's process: each piece of work here has an incarnation of its own."""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from holdfast.actors.workers import Claimed
from holdfast.agent.cancellation import Cancellation
from holdfast.background import Background
from holdfast.errors import StoreError
from holdfast.persistence import Runs

from .refusals import shared

logger = logging.getLogger("holdfast.worker")

CONFIRM_S = 0.02
"""Seconds from a claim until its caller is told that the work is running; most tools end sooner."""
QUEUED_S = 0.5
"""Seconds until a caller is told that its work is queued."""
GIVING_BACK_S = (0.1, 0.5, 2.0)
"""The pauses between tries to give back work that was told of as queued: the actor may only be about to leave it."""
LOOK_EVERY_S = 3.0
"""Seconds between checks whether this process's work is still awaited."""

_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class Claim(Generic[_T]):
    """One piece of work: its task, and the future that is done once its caller may be told that it is running.

    `work` names its conversation and its effect. When the work is settled, a model call (`ends`) is cancelled; a run is told
    so, and goes on. `begun`: the claim was made; `queued`: a caller was told that it waits, and may have left.
    """

    incarnation: str
    work: tuple[str, str]
    ends: bool = False
    cancellation: Cancellation = field(default_factory=Cancellation)
    task: "asyncio.Task[_T] | None" = None
    begun: bool = False
    queued: bool = False
    confirmed: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def made(self) -> None:
        """Note that the claim was made: `CONFIRM_S` later its caller may be told."""
        self.begun = True
        asyncio.get_running_loop().call_later(CONFIRM_S, self._confirm)

    def _confirm(self) -> None:
        if not self.confirmed.done():
            self.confirmed.set_result(None)


class Claims(Generic[_T]):
    """The claims of a process, by incarnation."""

    def __init__(self, process: str) -> None:
        self._process = process
        self._claims: dict[str, Claim[_T]] = {}
        self._of_tasks: dict[asyncio.Task[_T], Claim[_T]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._giving_back = Background()

    def new(self, work: tuple[str, str], *, ends: bool = False, process: str | None = None) -> Claim[_T]:
        """A claim to be made. Its incarnation names the task too, so that no later task can claim the work under it."""
        return Claim(f"{process or self._process}.{uuid.uuid4().hex[:12]}", work, ends)

    async def during(self, claim: Claim[_T], work: Callable[[], Awaitable[_T]], store: Runs) -> _T:
        """Carry the work out in the current task; `store` is told of work that was reported as queued but never began."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        claim.task = task
        self._claims[claim.incarnation] = claim
        self._of_tasks[task] = claim
        try:
            return await work()
        finally:
            del self._claims[claim.incarnation], self._of_tasks[task]
            if claim.queued and not claim.begun and all(other.work != claim.work for other in self._claims.values()):
                self._giving_back.start(self._give_back(claim, store))

    def task(self, incarnation: str) -> "asyncio.Task[_T] | None":
        """The task of that work; None if it does not run here."""
        claim = self._claims.get(incarnation)
        return None if claim is None else claim.task

    async def answer(self, task: "asyncio.Task[_T]") -> _T | Claimed:
        """The outcome of a task, `Dropped` if it was cancelled; `Claimed` if it still runs, or is queued."""
        await asyncio.sleep(0)  # the task may not have begun
        claim = self._of_tasks.get(task)
        if claim is not None:
            either: set[asyncio.Future[Any]] = {task, claim.confirmed}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED, timeout=QUEUED_S)
            if not task.done():
                claim.queued = claim.queued or not claim.begun
                return Claimed.BEGUN if claim.begun else Claimed.QUEUED
        return await shared(task)

    async def _give_back(self, claim: Claim[_T], store: Runs) -> None:
        """Have the conversation looked at: the actor that was told of the queued work has left it, or is about to."""
        for pause_s in GIVING_BACK_S:
            with contextlib.suppress(StoreError):
                if await store.give_back(*claim.work, incarnation=claim.incarnation):
                    return
            await asyncio.sleep(pause_s)

    def drop(self, incarnation: str) -> None:
        """Cancel a model call whose result nobody awaits any more; tell the body of such a run."""
        if (claim := self._claims.get(incarnation)) is None:
            return
        claim.cancellation.set()
        if claim.ends and claim.task is not None:
            claim.task.cancel()

    def look(self, store: Callable[[], Awaitable[Runs]]) -> None:
        """Look regularly which work is still awaited: the message that it is settled may be lost."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(store))

    async def _look(self, store: Callable[[], Awaitable[Runs]]) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            waited_for = [
                (*claim.work, name)
                for name, claim in self._claims.items()
                if claim.confirmed.done() and not claim.cancellation.is_set
            ]
            try:
                still_open = await (await store()).claims_stand(waited_for)
            except StoreError as error:
                logger.debug("it is not known which claims stand: %s", error)
                continue
            except Exception:
                logger.exception("it is not known which claims stand")
                continue
            for (_, _, incarnation), is_open in zip(waited_for, still_open, strict=True):
                if not is_open:
                    self.drop(incarnation)
