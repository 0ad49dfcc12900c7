"""An app in a worker: its environment, its import path, and the loop on which its code runs."""

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Self

from holdfast.actors.actor_settings import WorkerSettings
from holdfast.agent import Agent, App, load
from holdfast.agent.path import placed

from .app_loop import LEFT, AppLoop
from .notify.notifier import Notifier
from .ongoing import Ongoing

logger = logging.getLogger("holdfast.worker")

STUCK_S = 1.0
"""Seconds for which the app's loop may be blocked before another loop takes new work."""
LOOPS = 4
"""How many loops, each with the app's lifespan entered on it, a worker has at most."""
IMPORTING_S = 300.0
"""Seconds that importing the app may take."""
CLOSING_S = 30.0


class AllBlocked(Exception):
    """Callbacks block every loop that this process may have: another process has to take new work."""


class AppRuntime:
    """The imported app, and the loops for its async code."""

    def __init__(self, app: App, loop: AppLoop, notifier: Notifier) -> None:
        self.app = app
        self.notifier = notifier
        self._loops = [loop]
        self._replacing: Ongoing[None] = Ongoing()

    @classmethod
    async def open(cls, settings: WorkerSettings) -> Self:
        """The imported app, its lifespan entered on a first loop; raises their errors, or TimeoutError after their limits."""
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        sys.path[:] = placed(settings.python_path, sys.path)
        try:
            async with asyncio.timeout(IMPORTING_S) as bound:
                app = await asyncio.to_thread(load, settings.app, main_file=settings.main_file)
        except TimeoutError:
            if not bound.expired():
                raise
            raise TimeoutError(f"importing {settings.app} did not end within {IMPORTING_S:g} s") from None
        await asyncio.to_thread(import_module, "holdfast.actors.worker.model")  # takes seconds: once, and off the loop
        notifier = Notifier(app, os.environ)  # before the lifespan, which would have to be left again
        return cls(app, await AppLoop.open(app), notifier)

    async def loop(self) -> AppLoop:
        """A loop that is not blocked. A blocked one is left to the callback that blocks it; the lifespan is entered on another.

        Raises:
            AllBlocked: This process has `LOOPS` loops, and all are blocked.
            Exception: Any error of the lifespan.
        """
        current = self._loops[-1]
        if await current.answers(STUCK_S):
            return current
        replacing = self._replacing.joined("loop", lambda: self._replace(current))
        await asyncio.shield(replacing)  # a caller that stops waiting does not stop a lifespan from being entered
        return self._loops[-1]

    @property
    def latest(self) -> AppLoop:
        """The loop that was last found unblocked; its threads can be used even if it is blocked now."""
        return self._loops[-1]

    async def tidy(self) -> None:
        """Leave the lifespans of replaced loops that are unblocked again and run nothing, and close them."""
        for loop in self._loops[:-1]:
            turns = loop.idle and await loop.answers(STUCK_S)
            if turns and loop.idle and loop in self._loops[:-1]:
                self._loops.remove(loop)
                await _closed(loop)
                logger.info("an event loop of the app turns again and is closed; %d left", len(self._loops))

    @property
    def left(self) -> int:
        """How many callbacks exceeded their time limits on these loops, including those that have ended since."""
        return sum(loop.left for loop in self._loops)

    @property
    def worn(self) -> bool:
        """Whether so many abandoned callbacks still run that another process has to take new work."""
        return sum(loop.held for loop in self._loops) >= LEFT

    async def close(self) -> None:
        """Leave the lifespans on the loops that are not blocked; a blocked loop ends with the process."""
        await self.notifier.close()
        for loop in self._loops:
            if await loop.answers(STUCK_S):
                await loop.close()

    async def _replace(self, blocked: AppLoop) -> None:
        if self._loops[-1] is not blocked:
            return
        agents = ", ".join(agent.name for agent in self.app.agents)
        older = self._loops[:-1]
        for loop, turns in zip(older, await asyncio.gather(*(loop.answers(STUCK_S) for loop in older)), strict=True):
            if turns and loop in self._loops:
                logger.warning("an async callback of %s blocks its event loop; one that was blocked before turns again", agents)
                self._loops.remove(loop)
                self._loops.append(loop)
                return
        if len(self._loops) >= LOOPS:
            message = f"async callbacks of {agents} block all {LOOPS} event loops of this process: make them plain functions"
            logger.error("%s", message)
            raise AllBlocked(message)
        logger.error(
            "an async callback of %s blocks its event loop: make it a plain function, or await what it waits for; "
            "the lifespan is entered on another loop, %d of %d",
            agents,
            len(self._loops) + 1,
            LOOPS,
        )
        self._loops.append(await AppLoop.open(self.app))


async def _closed(loop: AppLoop) -> None:
    try:
        async with asyncio.timeout(CLOSING_S):
            await loop.close()
    except Exception:  # the app's lifespan may raise anything, or hang
        logger.exception("a lifespan of the app could not be left")


def agent_of(app: App, name: str) -> Agent | None:
    """The agent of that name; None if there is none."""
    return next((agent for agent in app.agents if agent.name == name), None)


def check_environment(needed: Sequence[str]) -> None:
    """Refuse to run an app without the variables that it was published with."""
    missing = [name for name in needed if name not in os.environ]
    if missing:
        raise RuntimeError(f"this worker's environment lacks {', '.join(missing)}: run `holdfast up --app` where it is set")
