"""The watchdog ends workers and actors that hang: code that never yields the interpreter stops its whole process.

A hanging process still takes up memory, so an actor counts as live until its death is certain. Each time a conversation makes
its actor hang, it gets a strike; too many strikes put it in quarantine.
"""

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import Protocol

from holdfast import metrics
from holdfast.counting import Counts
from holdfast.errors import StoreError
from holdfast.persistence import Store
from holdfast.settings import ProcessLimits, Timing

logger = logging.getLogger("holdfast.sweeper")

LOOK_EVERY_S = 2.0
"""Seconds between two looks: fewer than a new worker's imports take, so it answers once before it runs code."""
FIRST = 6
"""A process has this many times as long for its first answer, since it must start first."""


class Gone(Exception):
    """No process of that name runs now: it is dead, or Ray restarts it."""


class Processes(Protocol):
    """A store's workers and actors, of all releases."""

    async def names(self) -> Sequence[str]:
        """The names of the workers and actors that must answer."""

    def hosts(self, name: str) -> bool:
        """Whether the process is an actor, which hosts conversations."""

    async def answer(self, name: str) -> None:
        """Return once the process answers."""

    async def end(self, name: str) -> None:
        """Kill the process; Ray restarts a worker, but not an actor."""


class Watchdog:
    """Asks all workers and actors of a store for answers, again and again, and ends those that stop answering.

    An ended worker's work is lost, as after any death: its tool declares what happens then, and the conversations concerned run
    alone until the guilty one is found. Another actor revives the conversation of an ended actor.
    """

    def __init__(
        self, store: Store, processes: Processes, *, timing: Timing, process_limits: ProcessLimits, counts: Counts | None = None
    ) -> None:
        self._counts = Counts() if counts is None else counts
        self._store = store
        self._processes = processes
        self._strikes = process_limits.strikes
        self._patience = math.ceil(timing.stale_ms / 1000 / LOOK_EVERY_S)
        self._answered: set[str] = set()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._silent: dict[str, int] = {}

    async def run(self) -> None:
        """Look at all workers and actors every `LOOK_EVERY_S` seconds, for ever."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self.look()
            except Exception:
                logger.exception("the workers and actors could not be looked at")

    async def look(self) -> None:
        """Ask each process that has answered the last question; end one that has not for too many looks."""
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
        hosts = self._processes.hosts(name)
        try:
            if hosts:
                await self._strike(name)
            await self._processes.end(name)
            self._counts.add(metrics.HUNG, "actor" if hosts else "worker")
        except Exception:  # tried again after as many looks; go on with the other processes
            logger.exception("%s could not be ended", name)

    async def _strike(self, name: str) -> None:
        """Count a strike against the conversation that made an actor hang, before the note of that conversation is removed.

        The store counts an actor once. If another actor has taken over meanwhile, it stays the owner, unless this strike leads
        to quarantine.
        """
        try:
            conversation_id = await self._store.hosted(name)
            owner = await self._store.owner(conversation_id) if conversation_id is not None else None
            if conversation_id is None or owner is None:
                return
            reason = f"it made one actor after another hang, the last was {name.rpartition(':')[2]}"
            blame = await self._store.strike(conversation_id, owner.token, process=name, reason=reason, limit=self._strikes)
        except StoreError as error:
            logger.warning("the hang of %s is not counted: %s", name, error)
        else:
            counted = "it is in quarantine now" if blame is None else blame.crash_count
            logger.error("conversation %s made %s hang: %s", conversation_id, name, counted)
