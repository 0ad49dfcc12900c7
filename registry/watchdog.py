"""Ending workers and actors that answer nothing: code that never gives the interpreter back stops all of its process.

What hangs goes on taking up memory, so an actor is counted among the living until it is proven dead. A conversation that made
its actor hang gets a strike, and is put in quarantine when it does so again and again.
"""

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import Protocol

from holdfast.errors import StoreError
from holdfast.persistence import Conversations, Directory
from holdfast.settings import ProcessLimits, Timing

logger = logging.getLogger("holdfast.sweeper")

LOOK_EVERY_S = 2.0
"""Sooner than a new worker has imported what it needs to run anything: by then it has answered once."""
FIRST = 6
"""How many times as long one may take for its first answer: it is only being made."""


class Gone(Exception):
    """There is no such process now: it is dead, or is being started again."""


class Processes(Protocol):
    """The workers and actors of one store, of whatever release."""

    async def names(self) -> Sequence[str]:
        """The names of those that are to answer."""
        ...

    def hosts(self, name: str) -> bool:
        """Whether it is an actor, which hosts conversations."""
        ...

    async def answer(self, name: str) -> None:
        """Return once it answers.

        Raises:
            Gone: It is not there.
        """
        ...

    async def end(self, name: str) -> None:
        """End it, whatever it does; a worker is put in its place, an actor is not."""
        ...


class ConversationsAndDirectory(Conversations, Directory, Protocol):
    """What a watchdog asks of a store."""


class Watchdog:
    """One who asks each worker and actor of a store whether it answers, and ends those that have stopped to.

    What ran in a worker is lost then, as after any death: its tools say what that means, and whose it was is told apart alone.
    What an actor hosted is revived elsewhere.
    """

    def __init__(
        self, store: ConversationsAndDirectory, processes: Processes, *, timing: Timing, process_limits: ProcessLimits
    ) -> None:
        self._store = store
        self._processes = processes
        self._strikes = process_limits.strikes
        self._patience = math.ceil(timing.stale_ms / 1000 / LOOK_EVERY_S)
        self._answered: set[str] = set()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._silent: dict[str, int] = {}

    async def run(self) -> None:
        """Look again and again, for ever."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self.look()
            except Exception:
                logger.exception("the workers and actors could not be looked at")

    async def look(self) -> None:
        """Ask all who owe no answer; count in how many looks the others have owed it, and end who has for too long."""
        names = set(await self._processes.names())
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
            await self._processes.answer(name)
            self._answered.add(name)
        except Gone:
            self._answered.discard(name)
        except Exception:
            logger.exception("%s could not be asked", name)
        finally:
            del self._asking[name], self._silent[name]

    async def _end(self, name: str) -> None:
        silent_s = self._silent[name] * LOOK_EVERY_S
        logger.error("%s has answered nothing for %.0f s: it is ended, and what ran in it is lost", name, silent_s)
        try:
            if self._processes.hosts(name):
                await self._strike(name)
            await self._processes.end(name)
        except Exception:  # it is tried again after as long, and keeps nobody else from being looked at
            logger.exception("%s could not be ended", name)

    async def _strike(self, name: str) -> None:
        """Count that a conversation made its actor hang, before the actor is ended: nobody could say so afterwards.

        Told again of the same actor, the store counts it once. Another may have taken the conversation over meanwhile; that one
        is not deposed for what its forerunner did, unless the conversation has hung too many.
        """
        try:
            conversation_id = await self._store.hosted(name)
            owner = await self._store.owner(conversation_id) if conversation_id is not None else None
            if conversation_id is None or owner is None:
                return
            reason = f"it made actor after actor hang, at last {name.rpartition(':')[2]}, which answered nothing any more"
            strikes = await self._store.strike(conversation_id, owner.token, process=name, reason=reason, limit=self._strikes)
        except StoreError as error:
            logger.warning("that %s hangs is not counted: %s", name, error)
        else:
            logger.error("conversation %s made %s hang: %s", conversation_id, name, strikes or "it is in quarantine now")
