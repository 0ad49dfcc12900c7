"""The sweeper: a detached, named actor that Ray restarts for ever. It runs a `Sweep`, and renews the binding of this cluster.

While no Ray cluster runs, nothing is swept; once one runs again, the sweeper begins with the conversations that are overdue.
"""

import asyncio
import logging
import os
from collections.abc import Collection
from typing import Any

import ray
from ray.actor import exit_actor

from holdfast.actors import RAY_NAMESPACE, ActorSettings, StoreAddress, logs, named
from holdfast.actors.logs import write_lines
from holdfast.actors.placement import beside
from holdfast.counting import Counts
from holdfast.embedded.home import Home
from holdfast.embedded.revival import Revival
from holdfast.errors import HomeUnusable, StoreError
from holdfast.persistence import EVERYWHERE, Directory, Runs, Store, opened
from holdfast.redaction import Redaction

from . import cluster
from .ray_actors import RayActors, RayProcesses
from .sweep import Sweep
from .watchdog import Watchdog

REVIVAL_S = 60.0
ASK_AGAIN_S = 1.0

logger = logging.getLogger("holdfast.sweeper")


class Sweeper:
    """The sweeper's actor: it sweeps and runs the watchdog for ever, from the moment its process starts."""

    def __init__(self, settings: ActorSettings) -> None:
        logs.guard_process(Redaction.of_process(os.environ, urls=[settings.store.redis_url]))
        if ray.is_initialized():  # then this process belongs to the sweeper alone
            write_lines("sweeper", settings.log)
        self._settings = settings
        self._counts = Counts()
        self._holding: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run())
        watch = Watchdog(
            self._store(),
            RayProcesses(settings),
            timing=settings.timing,
            process_limits=settings.process_limits,
            counts=self._counts,
        )
        self._watching = loop.create_task(watch.run())

    async def ping(self) -> bool:
        """Whether the sweeper still ticks."""
        return not self._task.done()

    async def leave(self) -> None:
        """End this actor: Ray ends an actor only at the end of a call."""
        exit_actor()

    def _store(self, *, revive: Revival | None = None) -> Store:
        address = self._settings.store
        return opened(
            address.redis_url,
            namespace=address.namespace,
            store_id=address.store_id,
            revive=revive,
            cipher=address.cipher,
            counts=self._counts,
        )

    async def _run(self) -> None:
        timing = self._settings.timing
        store = self._store(revive=_revival(self._settings.store))
        if await _stopped(store):  # made by a client that did not know yet that Holdfast was stopped
            ray.get_runtime_context().current_actor.leave.remote()
            return
        # In a task of its own: this cluster lives, even while Ray or the store holds up a tick.
        self._holding = asyncio.create_task(cluster.hold(store, cluster.current, gone=self._settings.gone))
        await store.payloads.prepare()
        sweep = Sweep(
            store,
            RayActors(self._settings, store),
            timing=timing,
            process_limits=self._settings.process_limits,
            counts=self._counts,
        )
        self._listening = asyncio.create_task(_listen(store, sweep))
        while True:
            try:
                here = cluster.current()
                bound = await store.bind(here.cluster_id, here.address, cluster.BINDING_STALE_MS, gone=self._settings.gone)
                if bound is None:
                    await sweep.tick()
                else:
                    sweep.store_away()  # the other cluster's leases: they count as expired only after a lease's length here
                    logger.error("%s: nothing is swept here", cluster.wrong(bound, here))
            except StoreError as error:
                sweep.store_away()
                logger.warning("the store: %s", error)
            except Exception:
                logger.exception("a tick failed")
            await asyncio.sleep(timing.tick_ms / 1000)


async def _listen(store: Runs, sweep: Sweep) -> None:
    """Tell the sweep of each outcome as it is recorded. What is missed here is found by the next tick."""
    while True:
        try:
            async for conversation_id in store.outcomes():
                sweep.ring(conversation_id)
        except StoreError as error:
            logger.debug("outcomes are not heard of: %s", error)
        except Exception:
            logger.exception("outcomes are not heard of")
        await asyncio.sleep(ASK_AGAIN_S)


async def _stopped(store: Directory) -> bool:
    """Whether Holdfast was stopped on its cluster; the store is asked until it answers."""
    while True:
        try:
            return EVERYWHERE in await store.withheld()
        except StoreError as error:
            logger.warning("the store: %s", error)
            await asyncio.sleep(ASK_AGAIN_S)


def _revival(address: StoreAddress) -> Revival | None:
    """The restart of an embedded Redis that died when only actors are left, which keep deadlines; None without a home."""
    if not address.home:
        return None
    try:
        home = Home.open(address.home)
    except HomeUnusable:
        logger.exception("the embedded Redis could not be started again from here")
        return None
    return Revival(lambda: home, deadline_s=REVIVAL_S)


_RemoteSweeper = ray.remote(Sweeper)


def ensure_sweeper(settings: ActorSettings, *, avoid: Collection[str] = ()) -> Any:
    """The handle of this store's sweeper; a sweeper is made if there is none, on another node than these if one lives."""
    return _RemoteSweeper.options(
        name=settings.sweeper_name,
        namespace=RAY_NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        num_cpus=0,
        max_restarts=-1,
        **beside(avoid),
    ).remote(settings)


def restore_sweeper(settings: ActorSettings, *, avoid: Collection[str] = ()) -> None:
    """Make this store's sweeper if the cluster has none, on another node than these if one lives. Callers repeat this.

    The cluster is asked for the name each time: a process may remember the handle of a sweeper that is gone.
    """
    if settings.sweeper_name not in named(settings.sweeper_name):
        logger.warning("%s is not there, and is made anew", settings.sweeper_name)
        ensure_sweeper(settings, avoid=avoid)
