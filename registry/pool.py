"""The pool of actors: it hands free actors to a queue of callers, spawns actors up to the cap, and finds dead ones."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Protocol

from holdfast.actors.answers import AnswerToActivate, AnswerToAsk
from holdfast.background import Background
from holdfast.backoff import now_s
from holdfast.conversation import Command
from holdfast.errors import ClusterUnavailable, HoldfastError, StoreError
from holdfast.machine_load import because, overload
from holdfast.persistence import Directory, TakeoverReason
from holdfast.settings import ProcessLimits, Timing


class ActorDied(Exception):
    """The actor is dead for certain: it will never answer again."""


class ActorUnavailable(Exception):
    """The actor does not answer now, which does not prove its death."""


class Handle(Protocol):
    """One actor's handle. Every call may raise `ActorDied` or `ActorUnavailable`."""

    async def activate(
        self, conversation_id: str, seen_token: str, because: TakeoverReason, *, create: bool, first: Command | None = None
    ) -> AnswerToActivate:
        """See `Host.activate`."""

    async def ask(self, conversation_id: str, command: Command) -> AnswerToAsk:
        """See `Host.ask`."""

    async def pid(self) -> int:
        """The id of the actor's process."""


class Actors(Protocol):
    """The actors of one store."""

    async def find(self, name: str) -> Handle | None:
        """The actor of that name; None if there is none."""

    def ours(self, name: str) -> bool:
        """Whether an actor of that name runs this release: releases do not talk to each other."""

    def judges(self, name: str) -> bool:
        """Whether an actor unknown to `find` is dead: true for names made in this cluster, or in one that is gone.

        An actor of another cluster may live there, although this cluster does not know its name.
        """

    async def keeps(self, worker: str, incarnations: Sequence[str]) -> Sequence[bool] | None:
        """Which of these claims the worker is running; None if it does not answer now.

        A worker that is gone for certain runs none. A worker of another cluster cannot be asked: what it attests counts.
        """

    def new_name(self) -> str:
        """A name that no actor has."""

    async def spawn(self, name: str, *, offer: bool) -> Handle:
        """A new actor of that name, connected to the store and, with `offer`, on offer.

        Raises:
            ActorUnavailable: The actor did not start, or cannot reach the store.
            ClusterStopped: Holdfast was stopped on the cluster.
            OtherBuild: The actor's process runs another build of Holdfast.
        """


logger = logging.getLogger("holdfast.registry")

RESERVE = 2
"""How many actors above the cap the sweeper may spawn, to resume acknowledged work."""
COMING_MS = 1_000
"""How long (ms) a counted actor may be unknown to the cluster: the store counts it before it is made."""
WARMING_S = 60.0
"""How long an actor may take to start."""
PATIENCE = 4
"""On an overloaded machine, an actor has this many times as long to start: another actor would be no faster."""
CLOSING_S = 2.0
SPAWNING_AT_ONCE = 2
"""How many actors start at once, without those that are late; on an overloaded machine it is one."""
LATE_S = 5.0
MOST_ON_THE_WAY = 8
SHORT_S = 0.5
"""Seconds of looks without an offer before an actor is spawned, which costs about one second of processor time.

It is measured by the number of looks: a process that is busy, or gets no processor time, does not look.
"""
TAKEN_AT_ONCE = 8
"""The most offers taken in one look for as many waiting callers: in a busy process a look takes a while."""
LOOK_AGAIN_S = 0.005
FULL_S = 0.2
SPAWN_AGAIN_S = 1.0
MOST_DEAD = 10_000
"""The most names of dead actors that are remembered."""


class PoolFull(Exception):
    """The number of live actors in the store has reached the cap."""


class Pool:
    """One process's access to the actors of a store; it may spawn `reserve` actors above the cap.

    `full` says whether the last try to spawn an actor for a queued caller found no room. `dead` are the actors that are dead
    for certain.
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
        self._taken: list[str] = []  # for waiting callers; unused actors offer themselves again
        self._on_the_way: dict[asyncio.Task[None], float] = {}
        self.dead: set[str] = set()
        self._found: dict[str, Handle] = {}  # handles of actors taken before; a dead one fails when it is asked
        self._spawning = Background()
        self._leaving = Background()
        self.full = self._failed = False

    async def take(self) -> tuple[str, Handle]:
        """A free actor for the first caller in the queue: from an offer, or a new one after `SHORT_S` without offers."""
        if not self._waiting:  # an actor spawned after the last caller left offers itself
            self._empty_looks, self._cannot_spawn = 0, None
            self.full = self._failed = False
            self._spawned.clear()
            self._taken.clear()
        self._waiting += 1
        try:
            while True:
                async with self._line:
                    name, spawned = await self._next()
                # Outside the queue's lock: finding an actor takes longer than a turn.
                handle = spawned or (None if name in self.dead else self._found.get(name) or await self._actors.find(name))
                if handle is not None:
                    self._empty_looks = 0  # only a live actor's offer counts: offers of dead ones may remain
                    self._found[name] = handle
                    return name, handle
                await self.gone(name)
        finally:
            self._waiting -= 1

    async def _next(self) -> tuple[str, Handle | None]:
        while not self._spawned:
            if not self._taken:
                self._taken = list(await self._store.take(min(self._waiting, TAKEN_AT_ONCE), kept=self._short()))
            if self._taken:
                name = self._taken.pop(0)
                if not self._actors.ours(name):
                    continue  # of another release or cluster: it offers itself again
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

    def _short(self) -> bool:
        """Whether no other actor is to be had soon: then an actor that is kept for its conversation is taken, too."""
        return self.full or self._failed or any(begun <= now_s() - LATE_S for begun in self._on_the_way.values())

    def _may_spawn(self) -> bool:
        """Whether too few actors are starting. An actor later than `LATE_S` may never start, and does not count.

        On an overloaded machine each start is late, and more starts delay them all: callers get the actors that come free.
        """
        at_once, late_s = (1, LATE_S * PATIENCE) if overload() else (SPAWNING_AT_ONCE, LATE_S)
        in_time = sum(begun > now_s() - late_s for begun in self._on_the_way.values())
        return in_time < min(at_once, self._waiting) and len(self._on_the_way) < MOST_ON_THE_WAY

    async def _spawn_for_the_line(self) -> None:
        full = failed = False
        pause_s = 0.0
        try:
            self._spawned.append(await self.spawn(offer=False))
        except PoolFull:
            full, pause_s = True, FULL_S
        except ActorUnavailable as error:
            failed, pause_s = True, SPAWN_AGAIN_S
            logger.warning("an actor did not start: %s", error)
        except HoldfastError as error:
            self._cannot_spawn = error
        except Exception:
            failed, pause_s = True, SPAWN_AGAIN_S
            logger.exception("an actor could not be made")
        self.full, self._failed = full, failed
        await asyncio.sleep(pause_s)

    async def spawn(self, *, offer: bool) -> tuple[str, Handle]:
        """A new actor, which the store counts as live.

        Raises `PoolFull` if the store counts as many actors as the cap allows, and what `Actors.spawn` raises.
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
        """Give up the starting actors, and wait up to `CLOSING_S` until the store no longer counts them."""
        await self._spawning.close()
        await self._leaving.close(wait_s=CLOSING_S)

    def died(self, name: str) -> None:
        """Remember that an actor is dead for certain; a background task removes it from the store's count."""
        if name not in self.dead:
            if len(self.dead) > MOST_DEAD:
                self.dead.clear()
            self.dead.add(name)
            self._leaving.start(self.gone(name))

    async def gone(self, name: str) -> None:
        """Remove a dead actor from the store's count and offers, which makes room for another."""
        self._found.pop(name, None)
        with contextlib.suppress(StoreError):  # a later `reap` tries again
            await self._store.deregister(name)
            await self._store.offer(name, None)

    async def reap(self, *, quiet_ms: int) -> None:
        """Find actors without a heartbeat for `quiet_ms`, and deregister the dead ones; at most every other tick."""
        if now_s() < self._reap_at_s:
            return
        self._reap_at_s = now_s() + self._reap_every_s
        for name in await self._store.live(quiet_ms=quiet_ms):
            try:
                found = await self._actors.find(name)
            except ClusterUnavailable:
                return
            except Exception:  # go on with the other actors
                logger.exception("it is not known whether %s lives", name)
                continue
            if found is None:
                logger.info("%s is dead", name)
                await self.gone(name)
