"""An app in a worker: its environment, its import path, and the loop on which its code runs."""

import asyncio
import logging
import os
import sys
from typing import Self

from holdfast.agent import App, load

from .app_loop import AppLoop
from .settings import WorkerSettings

logger = logging.getLogger("holdfast.worker")

STUCK_S = 1.0
"""How long the app's loop may be blocked before another takes its place for what comes after."""


class AppRuntime:
    """The app, and a loop for its code that turns."""

    def __init__(self, app: App, loop: AppLoop) -> None:
        self.app = app
        self._loops = [loop]
        self._replacing = asyncio.Lock()

    @classmethod
    async def open(cls, settings: WorkerSettings) -> Self:
        """The app, imported, with its lifespan entered.

        Raises:
            Exception: Whatever importing or opening it raised.
        """
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        known = set(sys.path)
        sys.path[:0] = [entry for entry in settings.python_path if entry not in known]
        app = await asyncio.to_thread(load, settings.app, main_file=settings.main_file)
        await asyncio.to_thread(_import_litellm)
        return cls(app, await AppLoop.open(app))

    async def loop(self) -> AppLoop:
        """A loop for the app's code that turns: what blocks one keeps it, and the lifespan is entered anew on another."""
        current = self._loops[-1]
        if await current.answers(STUCK_S):
            return current
        async with self._replacing:
            if self._loops[-1] is current:
                logger.error(
                    "an async callback of %s blocks its event loop: make it a plain function, or await what it waits for",
                    ", ".join(agent.name for agent in self.app.agents),
                )
                self._loops.append(await AppLoop.open(self.app))
        return self._loops[-1]

    @property
    def left(self) -> int:
        """How many works passed their bounds here, and may go on."""
        return sum(loop.left for loop in self._loops)

    async def close(self) -> None:
        """Leave the lifespans that can be left; what is blocked ends with the process."""
        for loop in self._loops:
            if await loop.answers(STUCK_S):
                await loop.close()


def _import_litellm() -> None:
    from . import model  # noqa: PLC0415 - takes seconds, so it is done here, once, off the loop

    _ = model
