"""The sweeper: a detached, named actor that Ray restarts for ever. It sweeps, delivers, and renews the cluster's binding.

Without a running Ray cluster nothing is swept; once one runs again, the sweeper begins with the overdue conversations.
"""

import asyncio
import logging
import os
from collections.abc import Collection
from functools import partial
from typing import Any

import ray
from ray.actor import exit_actor
from ray.exceptions import RayError

from holdfast.actors import logs
from holdfast.actors.actor_settings import RAY_NAMESPACE, ActorSettings, LinkSettings, StoreAddress
from holdfast.actors.logs import write_lines
from holdfast.actors.memory import keep_imported
from holdfast.actors.placement import beside
from holdfast.actors.proofs import Proofs
from holdfast.actors.published import Published
from holdfast.actors.ray_launcher import RayLauncher, find, named
from holdfast.actors.ray_workers import RayWorkers
from holdfast.actors.steps import reached_here
from holdfast.actors.vault import Vault
from holdfast.actors.workers import DeliverAnswer, DeliverRequest
from holdfast.counting import Counts
from holdfast.daemon import in_daemon
from holdfast.embedded.home import Home
from holdfast.embedded.revival import Revival
from holdfast.errors import HoldfastError, HomeUnusable, StoreError
from holdfast.persistence import EVERYWHERE, Directory, Runs
from holdfast.redaction import Redaction

from . import cluster
from .courier import Courier
from .messages import Messages
from .notice_links import NoticeLinks
from .own_deliveries import own_deliveries
from .ray_actors import RayActors, RayProcesses
from .sweep import Sweep
from .watchdog import Watchdog

REVIVAL_S = 60.0
ASK_AGAIN_S = 1.0
LEND_EVERY_S = 5.0
"""Seconds between two times that a process lends the keys of links."""
LEND_S = 30.0

logger = logging.getLogger("holdfast.sweeper")


class Sweeper:
    """The sweeper's actor: it sweeps, delivers and runs the watchdog for as long as it lives."""

    def __init__(self, settings: ActorSettings) -> None:
        logs.guard_process(Redaction.of_process(os.environ, urls=[settings.store.redis_url]))
        if ray.is_initialized():  # then this is a sweeper's own process
            write_lines("sweeper", settings.log)
            keep_imported()
        self._settings = settings
        self._counts = Counts()
        self._holding: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._delivering: asyncio.Task[None] | None = None
        self._bound = False
        self._lent: LinkSettings | None = None
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run())
        watch = Watchdog(
            settings.store.opened(counts=self._counts),
            RayProcesses(settings),
            timing=settings.timing,
            process_limits=settings.process_limits,
            counts=self._counts,
        )
        self._watching = loop.create_task(watch.run())

    async def ping(self) -> bool:
        """Whether the sweeper still ticks."""
        return not self._task.done()

    async def lend(self, links: LinkSettings) -> None:
        """Make the links of notices with these keys from now on."""
        self._lent = links

    async def signs(self) -> str | None:
        """The URL that links begin with; None if nobody has lent keys."""
        return None if self._lent is None else self._lent.public_url

    async def leave(self) -> None:
        """End this actor, during a call: Ray ends an actor only at a call's end."""
        exit_actor()

    async def _run(self) -> None:
        timing = self._settings.timing
        store = self._settings.store.opened(revive=_revival(self._settings.store), counts=self._counts)
        if await _stopped(store):  # the client that made this sweeper did not know yet that Holdfast was stopped
            ray.get_runtime_context().current_actor.leave.remote()
            return
        # In its own task: this cluster lives even while Ray or the store delays a tick.
        self._holding = asyncio.create_task(cluster.hold(store, cluster.current, gone=self._settings.gone))
        await store.payloads.prepare()
        vault = Vault(self._settings.store)
        launcher = RayLauncher(vault)
        workers = RayWorkers(store, self._settings, launcher)
        messages = Messages(store, workers, self._settings.release, self._settings.traces, reached=reached_here())
        sweep = Sweep(
            store,
            RayActors(self._settings, store),
            timing=timing,
            process_limits=self._settings.process_limits,
            counts=self._counts,
            messages=messages,
        )
        self._listening = asyncio.create_task(_listen(store, sweep))
        links = NoticeLinks(store, Published(store, self._settings.store, launcher.key), lambda: self._lent)

        async def notify(app: str, request: DeliverRequest) -> DeliverAnswer:
            return await workers.deliver(app, await links.added(app, request))

        sign = Proofs(self._settings.store, partial(in_daemon, vault.servers_key)).signed
        courier = Courier(
            store,
            notify,
            own_deliveries(sweep.registry, store, sign, messages),
            may=lambda: self._bound,
            counts=self._counts,
            reached=reached_here(),
        )
        self._delivering = asyncio.create_task(courier.run())
        while True:
            try:
                here = cluster.current()
                bound = await store.bind(here.cluster_id, here.address, cluster.BINDING_STALE_MS, gone=self._settings.gone)
                self._bound = bound is None
                if bound is None:
                    await sweep.tick()
                else:
                    sweep.store_away()  # leases of the other cluster's actors count as expired only after a lease's length
                    logger.error("%s: nothing is swept here", cluster.wrong(bound, here))
            except StoreError as error:
                sweep.store_away()
                logger.warning("the store: %s", error)
            except Exception:
                logger.exception("a tick failed")
            await asyncio.sleep(timing.tick_ms / 1000)


async def _listen(store: Runs, sweep: Sweep) -> None:
    """Tell the sweep of each recorded outcome; the next tick finds missed ones."""
    while True:
        try:
            async for conversation_id in store.outcomes():
                sweep.ring(conversation_id)
        except StoreError as error:
            logger.debug("recorded outcomes are not received: %s", error)
        except Exception:
            logger.exception("recorded outcomes are not received")
        await asyncio.sleep(ASK_AGAIN_S)


async def _stopped(store: Directory) -> bool:
    while True:
        try:
            return EVERYWHERE in await store.withheld()
        except StoreError as error:
            logger.warning("the store: %s", error)
            await asyncio.sleep(ASK_AGAIN_S)


def _revival(address: StoreAddress) -> Revival | None:
    """Restarts a dead embedded Redis while only actors are left, so that deadlines are kept; None without a home."""
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
    """The handle of this store's sweeper; if there is none, one is made, outside the nodes to `avoid` if possible."""
    return _RemoteSweeper.options(
        name=settings.sweeper_name,
        namespace=RAY_NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        num_cpus=0,
        max_restarts=-1,
        **beside(avoid),
    ).remote(settings)


async def lend_links(settings: ActorSettings, links: LinkSettings) -> None:
    """Lend this store's sweeper what it makes links with, for ever: one that was restarted knows of nothing."""
    while True:
        try:
            async with asyncio.timeout(LEND_S):
                sweeper = await asyncio.to_thread(find, settings.sweeper_name)
                if sweeper is not None:
                    await sweeper.lend.remote(links)
        except (HoldfastError, RayError, TimeoutError) as error:
            logger.debug("the sweeper is not lent the keys of links: %s", error)
        await asyncio.sleep(LEND_EVERY_S)


def restore_sweeper(settings: ActorSettings, *, avoid: Collection[str] = ()) -> None:
    """Make this store's sweeper if the cluster has none, outside the nodes to `avoid` if possible. Callers repeat this.

    The cluster is asked for the name each time: a remembered handle may be of a sweeper that is gone.
    """
    if settings.sweeper_name not in named(settings.sweeper_name):
        logger.warning("%s is not there, and is made anew", settings.sweeper_name)
        ensure_sweeper(settings, avoid=avoid)
