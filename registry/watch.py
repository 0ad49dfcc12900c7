"""Ending workers that answer nothing: a callback that never gives the interpreter back stops all of its process."""

import asyncio
import logging
import math

import ray
from ray.exceptions import RayError

from holdfast.actors import ActorSettings, find, named

logger = logging.getLogger("holdfast.sweeper")

LOOK_EVERY_S = 2.0
"""Sooner than a new worker has imported what it needs to run anything: by then it has answered once."""
FIRST = 6
"""How many times as long one may take for its first answer: it is only being made."""


class Watch:
    """One who asks each worker of a store, of whatever release; where one has stopped answering, Ray is to put another.

    What ran in it is lost then, as after any death: its tools say what that means, and whose it was is told apart alone.
    """

    def __init__(self, settings: ActorSettings) -> None:
        self._family = settings.family
        self._patience = math.ceil(settings.timing.stale_ms / 1000 / LOOK_EVERY_S)
        self._answered: set[str] = set()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._silent: dict[str, int] = {}

    async def run(self) -> None:
        """Look again and again, for ever."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self._look()
            except Exception:
                logger.exception("the workers could not be looked at")

    async def _look(self) -> None:
        """Ask all who owe no answer; count in how many looks the others have owed it, and end who has for too long."""
        names = {name for name in await asyncio.to_thread(named, self._family) if ":worker:" in name}
        self._answered &= names
        for name in sorted(names):
            if name not in self._asking:
                self._silent[name] = 0
                self._asking[name] = asyncio.create_task(self._ask(name))
                continue
            self._silent[name] += 1
            if self._silent[name] % (self._patience * (1 if name in self._answered else FIRST)) == 0:
                await self._end(name)

    async def _ask(self, name: str) -> None:
        try:
            handle = await asyncio.to_thread(find, name)
            if handle is not None:
                await handle.process.remote()
                self._answered.add(name)
        except RayError:  # it is dead, or Ray starts it again
            self._answered.discard(name)
        except Exception:
            logger.exception("%s could not be asked", name)
        finally:
            del self._asking[name], self._silent[name]

    async def _end(self, name: str) -> None:
        silent_s = self._silent[name] * LOOK_EVERY_S
        logger.error("%s has answered nothing for %.0f s: it is ended, and what ran in it is lost", name, silent_s)
        handle = await asyncio.to_thread(find, name)
        if handle is not None:
            ray.kill(handle, no_restart=False)
