"""The pool of actors: it gives a free actor to each caller in its line, spawns actors up to the cap, and finds dead ones."""

import asyncio
import contextlib
import logging

from holdfast.background import Background
from holdfast.backoff import now_s
from holdfast.errors import ClusterUnavailable, HoldfastError, StoreError
from holdfast.machine_load import because, overload
from holdfast.persistence import Directory
from holdfast.settings import ProcessLimits, Timing

from .actors import Actors, ActorUnavailable, Handle

logger = logging.getLogger("holdfast.registry")

RESERVE = 2
"""How many actors beyond the cap the sweeper may spawn, for acknowledged work that it takes up again."""
COMING_MS = 1_000
"""How long a counted actor may be unknown to the cluster: an actor is counted before it is made."""
WARMING_S = 60.0
"""How long an actor may take to start."""
PATIENCE = 4
"""How many times as long it may take, and counts as in time, on an overloaded machine: another would be no sooner there."""
CLOSING_S = 2.0
SPAWNING_AT_ONCE = 2
"""How many actors are in the making at once, without late ones; one on an overloaded machine."""
LATE_S = 5.0
MOST_ON_THE_WAY = 8
SHORT_S = 0.5
"""For how many seconds of looks no actor must be on offer before one is spawned: a process costs about a second of a processor.

Looks count, not the time between them: a process that is busy, or that had none of the processor, has not looked.
"""
TAKEN_AT_ONCE = 8
"""How many offers are taken in one look, if as many callers wait: in a process with much to do, a look takes a while."""
LOOK_AGAIN_S = 0.005
FULL_S = 0.2
SPAWN_AGAIN_S = 1.0
MOST_DEAD = 10_000
"""How many names of dead actors are remembered."""


class PoolFull(Exception):
    """The store counts as many actors as the cap allows."""


class Pool:
    """The actors of one store, as one process takes and spawns them; `reserve` is how many actors it may spawn beyond the cap.

    Attributes:
        full: Whether the last try to spawn an actor for a caller in the line found no room.
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
        self._empty_looks = 0
        self._cannot_spawn: HoldfastError | None = None
        self._spawned: list[tuple[str, Handle]] = []
        self._taken: list[str] = []  # for those who wait; what is left over offers itself again
        self._on_the_way: dict[asyncio.Task[None], float] = {}
        self._dead: set[str] = set()
        self._found: dict[str, Handle] = {}  # of those that were taken before: one that died since says so when it is asked
        self._spawning = Background()
        self._leaving = Background()
        self.full = False

    async def take(self) -> tuple[str, Handle]:
        """A free actor for the first caller in the line: one on offer, or a new one if none has been on offer for `SHORT_S`."""
        if not self._waiting:  # an actor that was spawned after the last caller left puts itself on offer
            self._empty_looks, self._cannot_spawn = 0, None
            self.full = False
            self._spawned.clear()
            self._taken.clear()
        self._waiting += 1
        try:
            while True:
                async with self._line:
                    name, spawned = await self._next()
                # Not in the line: to find one takes longer than to have one's turn.
                handle = spawned or (None if name in self._dead else self._found.get(name) or await self._actors.find(name))
                if handle is not None:
                    self._empty_looks = 0  # an offer of a dead one, who may go on offering itself, is none
                    self._found[name] = handle
                    return name, handle
                await self.gone(name)
        finally:
            self._waiting -= 1

    async def _next(self) -> tuple[str, Handle | None]:
        """The actor for the first in the line, with its handle if it was spawned for the line."""
        while not self._spawned:
            if not self._taken:
                self._taken = list(await self._store.take(min(self._waiting, TAKEN_AT_ONCE)))
            if self._taken:
                name = self._taken.pop(0)
                if not self._actors.ours(name):
                    continue  # an actor of another release or cluster, which offers itself again
                return name, None
            if self._empty_looks * LOOK_AGAIN_S >= SHORT_S and self._may_spawn():
                self._empty_looks = 0
                coming = self._spawning.start(self._spawn_for_the_line())
                self._on_the_way[coming] = now_s()
                coming.add_done_callback(self._on_the_way.pop)
            self._empty_looks += 1
            await asyncio.sleep(LOOK_AGAIN_S)
            if self._cannot_spawn is not None:
                error, self._cannot_spawn = self._cannot_spawn, None
                raise error
        return self._spawned.pop()

    def _may_spawn(self) -> bool:
        """Whether too few actors are on their way; an actor that is later than `LATE_S` may never come, and does not count.

        On an overloaded machine each is late, and the more are made at once, the later are all: callers get those that
        come free.
        """
        at_once, late_s = (1, LATE_S * PATIENCE) if overload() else (SPAWNING_AT_ONCE, LATE_S)
        in_time = sum(begun > now_s() - late_s for begun in self._on_the_way.values())
        return in_time < min(at_once, self._waiting) and len(self._on_the_way) < MOST_ON_THE_WAY

    async def _spawn_for_the_line(self) -> None:
        """Spawn an actor for the caller who is first in the line once it runs."""
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
        """A new actor, which the store counts among those that live.

        Raises:
            PoolFull: The store counts as many actors as the cap allows.
            ActorUnavailable: The actor did not start in time, or cannot reach the store.
            ClusterError: No actor can be spawned.
            OtherBuild: A process of the cluster runs another build of Holdfast.
        """
        name = self._actors.new_name()
        if not await self._store.heartbeat(name, limit=self._limit):
            await self.reap(quiet_ms=COMING_MS)
            raise PoolFull
        within_s = WARMING_S * (PATIENCE if overload() else 1)
        try:
            async with asyncio.timeout(within_s):
                return name, await self._actors.spawn(name, offer=offer)
        except BaseException as error:
            self._leaving.start(self.gone(name))  # in the background: the caller has a deadline
            if isinstance(error, TimeoutError):
                raise ActorUnavailable(f"it took longer than {within_s:g} s{because()}") from error
            raise

    async def close(self) -> None:
        """Give up the actors that are on their way, and wait a moment until the store no longer counts them."""
        await self._spawning.close()
        await self._leaving.close(wait_s=CLOSING_S)

    def is_dead(self, name: str) -> bool:
        """Whether this pool knows an actor to be dead, so that the cluster need not be asked."""
        return name in self._dead

    def died(self, name: str) -> None:
        """Remember that an actor is proven dead; a background task takes it out of the count."""
        if name not in self._dead:
            if len(self._dead) > MOST_DEAD:
                self._dead.clear()
            self._dead.add(name)
            self._leaving.start(self.gone(name))

    async def gone(self, name: str) -> None:
        """Take an actor that lives no more out of the store's count and offers, which makes room for another."""
        self._found.pop(name, None)
        with contextlib.suppress(StoreError):  # a later `reap` tries again
            await self._store.deregister(name)
            await self._store.offer(name, None)

    async def reap(self, *, quiet_ms: int) -> None:
        """Look for the actors that have sent no heartbeat for `quiet_ms`, and count out the dead; at most every other tick."""
        if now_s() < self._reap_at_s:
            return
        self._reap_at_s = now_s() + self._reap_every_s
        for name in await self._store.live(quiet_ms=quiet_ms):
            try:
                found = await self._actors.find(name)
            except ClusterUnavailable:
                return
            except Exception:  # the other actors can be looked for all the same
                logger.exception("whether %s lives is not known", name)
                continue
            if found is None:
                logger.info("%s lives no more", name)
                await self.gone(name)
