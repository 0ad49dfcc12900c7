"""Spawning actors up to the cap, and finding out which of those that are counted live no more."""

import asyncio
import contextlib
import logging

from holdfast.errors import ClusterUnavailable, StoreError
from holdfast.persistence import Directory
from holdfast.settings import ProcessLimits, Timing

from .actors import Actors, ActorUnavailable, Handle

logger = logging.getLogger("holdfast.registry")

RESERVE = 2
"""How many actors more there may be for work that was acknowledged before and is to be taken up again."""
COMING_MS = 1_000
"""How long somebody who is counted may not be known to the cluster yet: first an actor is counted, then it is made."""
WARMING_S = 60.0
CLOSING_S = 2.0


class PoolFull(Exception):
    """There are as many actors as there may be."""


class Pool:
    """New actors for one who asks; `reserve` lets it go beyond the cap by so many."""

    def __init__(
        self, store: Directory, actors: Actors, *, timing: Timing, process_limits: ProcessLimits, reserve: int = 0
    ) -> None:
        self._store = store
        self._actors = actors
        self._limit = process_limits.max_actors + reserve
        self._reap_every_s = 2 * timing.tick_ms / 1000
        self._reap_at_s = 0.0
        self._leaving: set[asyncio.Task[None]] = set()

    async def spawn(self, *, offer: bool) -> tuple[str, Handle]:
        """A new actor, counted among those that live.

        Raises:
            PoolFull: There may be no more.
            ActorUnavailable: It did not start, or cannot reach the store.
        """
        name = self._actors.new_name()
        if not await self._store.heartbeat(name, limit=self._limit):
            await self.reap(quiet_ms=COMING_MS)
            raise PoolFull
        try:
            async with asyncio.timeout(WARMING_S):
                return name, await self._actors.spawn(name, offer=offer)
        except BaseException as error:
            leaving = asyncio.create_task(self.gone(name))  # whoever waits has a deadline
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
            if isinstance(error, TimeoutError):
                raise ActorUnavailable("it took too long") from error
            raise

    async def close(self) -> None:
        """Wait a moment until those that were given up are counted no more; otherwise that is found out in time."""
        if self._leaving:
            _, late = await asyncio.wait(self._leaving, timeout=CLOSING_S)
            for task in late:
                task.cancel()

    async def gone(self, name: str) -> None:
        """An actor lives no more, and makes room."""
        with contextlib.suppress(StoreError):  # it is forgotten after a while, then
            await self._store.deregister(name)
            await self._store.withdraw(name)

    async def reap(self, *, quiet_ms: int) -> None:
        """Find out which of those that have been quiet for so long live no more, at most every other tick.

        Raises:
            StoreError: The store is away.
        """
        now_s = asyncio.get_running_loop().time()
        if now_s < self._reap_at_s:
            return
        self._reap_at_s = now_s + self._reap_every_s
        for name in await self._store.live(quiet_ms=quiet_ms):
            try:
                found = await self._actors.find(name)
            except ClusterUnavailable:
                return
            except Exception:  # of the others something may be known
                logger.exception("whether %s lives is not known", name)
                continue
            if found is None:
                logger.info("%s lives no more", name)
                await self.gone(name)
