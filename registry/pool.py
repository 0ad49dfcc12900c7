"""The pool of actors: a free one for whoever waits in its line, new ones up to the cap, and which of them live no more."""

import asyncio
import contextlib
import logging

from holdfast.background import Background
from holdfast.errors import ClusterUnavailable, HoldfastError, StoreError
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
SPAWNING_AT_ONCE = 2
LATE_S = 5.0
MOST_ON_THE_WAY = 8
SHORT_S = 0.1
"""How long nobody must be on offer before somebody is spawned: a process costs about a second of a processor."""
LOOK_AGAIN_S = 0.02
FULL_S = 0.2
SPAWN_AGAIN_S = 1.0
MOST_DEAD = 10_000
"""How many names of dead actors are remembered."""


class PoolFull(Exception):
    """There are as many actors as there may be."""


class Pool:
    """The actors of one store, as one process takes and spawns them; `reserve` lets it go beyond the cap by so many.

    Attributes:
        full: Whether the last try to spawn an actor for somebody in the line found no room.
    """

    def __init__(
        self, store: Directory, actors: Actors, *, timing: Timing, process_limits: ProcessLimits, reserve: int = 0
    ) -> None:
        self._store = store
        self._actors = actors
        self._limit = process_limits.max_actors + reserve
        self._reap_every_s = 2 * timing.tick_ms / 1000
        self._reap_at_s = 0.0
        self._line = asyncio.Lock()
        self._waiting = 0
        self._short_since: float | None = None
        self._cannot_spawn: HoldfastError | None = None
        self._spawned: list[tuple[str, Handle]] = []
        self._on_the_way: dict[asyncio.Task[None], float] = {}
        self._dead: set[str] = set()
        self._spawning = Background()
        self._leaving = Background()
        self.full = False

    async def take(self) -> tuple[str, Handle]:
        """A free actor, for whoever is first in the line: one that is on offer, or a new one if none has been for a while.

        Raises:
            ClusterError: No actor can be spawned.
            StoreError: The store is away.
        """
        if not self._waiting:  # an actor that was spawned when nobody waited any more puts itself on offer
            self._short_since = self._cannot_spawn = None
            self.full = False
            self._spawned.clear()
        self._waiting += 1
        try:
            async with self._line:
                return await self._next()
        finally:
            self._waiting -= 1

    async def _next(self) -> tuple[str, Handle]:
        while not self._spawned:
            name = await self._store.take()
            if name is not None and not self._actors.ours(name):
                continue  # it offers itself again to those that it can talk to
            if name is not None:
                self._short_since = None
                handle = None if name in self._dead else await self._actors.find(name)
                if handle is not None:
                    return name, handle
                await self.gone(name)
                continue
            self._short_since = self._short_since or _now()
            if _now() - self._short_since >= SHORT_S and self._may_spawn():
                coming = self._spawning.start(self._spawn_for_the_line())
                self._on_the_way[coming] = _now()
                coming.add_done_callback(self._on_the_way.pop)
            await asyncio.sleep(LOOK_AGAIN_S)
            if self._cannot_spawn is not None:
                error, self._cannot_spawn = self._cannot_spawn, None
                raise error
        return self._spawned.pop()

    def _may_spawn(self) -> bool:
        """Whether too few are on their way; one that is late may never come, and does not count as one for long."""
        in_time = sum(begun > _now() - LATE_S for begun in self._on_the_way.values())
        return in_time < min(SPAWNING_AT_ONCE, self._waiting) and len(self._on_the_way) < MOST_ON_THE_WAY

    async def _spawn_for_the_line(self) -> None:
        """A new actor for whoever is first by then."""
        full = False
        pause_s = 0.0
        try:
            self._spawned.append(await self.spawn(offer=False))
        except PoolFull:
            full, pause_s = True, FULL_S
        except ActorUnavailable as error:
            pause_s = SPAWN_AGAIN_S
            logger.warning("an actor did not start: %s", error)
        except HoldfastError as error:
            self._cannot_spawn = error
        except Exception:
            pause_s = SPAWN_AGAIN_S
            logger.exception("an actor could not be made")
        self.full = full
        await asyncio.sleep(pause_s)

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
            self._leaving.start(self.gone(name))  # whoever waits has a deadline
            if isinstance(error, TimeoutError):
                raise ActorUnavailable("it took too long") from error
            raise

    async def close(self) -> None:
        """Give up the actors that are on their way, and wait a moment until they are counted no more."""
        await self._spawning.close()
        await self._leaving.close(wait_s=CLOSING_S)

    def is_dead(self, name: str) -> bool:
        """Whether an actor is known to be dead, so that nobody has to look for it."""
        return name in self._dead

    def died(self, name: str) -> None:
        """Remember that an actor is proven dead; that it makes room is seen to in the background."""
        if name not in self._dead:
            if len(self._dead) > MOST_DEAD:
                self._dead.clear()
            self._dead.add(name)
            self._leaving.start(self.gone(name))

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
        now_s = _now()
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


def _now() -> float:
    return asyncio.get_running_loop().time()
