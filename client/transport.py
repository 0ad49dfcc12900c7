"""The transport of commands over Ray to the actors that host their conversations."""

import asyncio
import contextlib
import logging
import shlex
import time
import warnings
from collections.abc import Callable, Sequence
from typing import cast

from holdfast.actors.actor_settings import ActorSettings, LinkSettings, StoreAddress
from holdfast.actors.proofs import signed
from holdfast.actors.ray_launcher import RayLauncher, named
from holdfast.actors.ray_workers import RayWorkers
from holdfast.actors.signature import vouched
from holdfast.actors.steps import reached_here
from holdfast.actors.vault import Vault
from holdfast.agent import App
from holdfast.background import Background
from holdfast.conversation import Send, Start
from holdfast.conversation.records.command_base import Request
from holdfast.daemon import in_daemon
from holdfast.embedded.home import Home
from holdfast.errors import AgentNotFound, AppNotPublished, ClusterStopped, ClusterUnavailable, HoldfastError, StoreError
from holdfast.persistence import EVERYWHERE, Directory, Store
from holdfast.registry import cluster as clusters
from holdfast.registry.encryption import checked_cipher
from holdfast.registry.messages import Messages
from holdfast.registry.pool import Pool
from holdfast.registry.ray_actors import RayActors
from holdfast.registry.registry import Delivery, DeliveryResult, Registry
from holdfast.registry.releases import end_other_releases, take_office
from holdfast.registry.sweeper import ensure_sweeper, lend_links, restore_sweeper
from holdfast.settings import Settings
from holdfast.single_flight import SingleFlight

from .cautions import AppDiffersWarning
from .publishing import Here, publish

logger = logging.getLogger("holdfast.client")

LOOK_EVERY_S = 2.0
"""How old, in seconds, a connected client's knowledge of the binding may be."""
LOOK_AHEAD_S = 1.0
"""From which age on, in seconds, a command has the binding looked at without waiting for it."""
LOOK_S = 1.0
"""How many seconds of a command's time a look at the binding may take."""


class Bond:
    """A client's knowledge of its cluster's binding; a command waits for a look at it if it is older than `LOOK_EVERY_S`."""

    def __init__(self, store: Directory, cluster: clusters.Cluster, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._cluster = cluster
        self._clock = clock
        self._looked_at = clock()
        self._looking = SingleFlight(self._look)

    async def check(self, *, within_s: float) -> None:
        """Raise `WrongCluster` or `ClusterStopped` if the store is bound elsewhere, or Holdfast was stopped here."""
        age_s = self._clock() - self._looked_at
        if age_s < LOOK_AHEAD_S:
            return
        if age_s < LOOK_EVERY_S:
            self._looking.begin()
            return
        with contextlib.suppress(TimeoutError):  # the command itself will fail for the same reason
            async with asyncio.timeout(within_s / 4):
                await self._looking.result()

    async def _look(self) -> None:
        now = self._clock()
        try:
            async with asyncio.timeout(LOOK_S):
                binding, withheld = await asyncio.gather(self._store.binding(), self._store.withheld())
        except (StoreError, TimeoutError) as error:  # as above
            logger.debug("the binding could not be read: %s", error)
            self._looked_at = now
            return
        if binding is not None and binding.cluster.partition("@")[0] != self._cluster.cluster_id:
            raise clusters.wrong(binding, self._cluster)
        if EVERYWHERE in withheld:
            raise ClusterStopped(self._store.namespace)
        self._looked_at = now


class RayTransport:
    """The transport of commands to the actors of one Ray cluster."""

    def __init__(
        self,
        store: Store,
        settings: ActorSettings,
        joined: clusters.Cluster,
        *,
        publishes: bool,
        links: LinkSettings | None = None,
    ) -> None:
        self.settings = settings
        self.cluster = joined
        self._store = store
        self._publishes = publishes
        self._published: set[tuple[str, str]] = set()
        self._bond = Bond(store, joined)
        self._servers_key: bytes | None = None
        actors = RayActors(settings, store)
        pool = Pool(store, actors, timing=settings.timing, process_limits=settings.process_limits)
        self._registry = Registry(store, actors, pool=pool, timing=settings.timing)
        workers = RayWorkers(store, settings, RayLauncher(Vault(settings.store)))
        self._messages = Messages(store, workers, settings.release, settings.traces, reached=reached_here())
        self._tasks = Background()
        if links is not None:
            self._tasks.start(lend_links(settings, links))

    @classmethod
    async def open(
        cls,
        store: Store,
        settings: Settings,
        address: str,
        app: App | None,
        app_path: str | None,
        *,
        gone: Sequence[str] = (),
        roll_back: bool = False,
        lift: bool = False,
        say: Callable[[str], None] = logger.warning,
    ) -> "RayTransport":
        """Join Ray, bind the store to it, end the processes of other releases and ensure the sweeper; returns the transport.

        The app is published, with workers of its own, or compared with its published version. `gone` are clusters that are
        proven to be gone; the store may still be bound to one of them. `roll_back` lets this release replace a newer one,
        `lift` starts Holdfast again if it was stopped on its cluster (else `ClusterStopped`), and `say` gets one line if the
        call has to wait for another cluster's binding. The other errors are those that every command raises.
        """
        if not lift and EVERYWHERE in await store.withheld():
            raise ClusterStopped(store.namespace)
        cipher = await checked_cipher(store)
        publishes = settings.publishes
        joined = await in_daemon(clusters.join, address, embedded=settings.ray_address is None)
        clusters.keep_sigterm()
        try:
            await clusters.bind(store, joined, gone=gone, say=say)
            home = str((await in_daemon(Home.open, settings.home)).path) if settings.redis_url is None else ""
            where = StoreAddress(
                redis_url=store.url, namespace=store.namespace, store_id=store.store_id or "", home=home, cipher=cipher
            )
            key = await in_daemon(_key, settings, where, makes=publishes and app is not None)  # before a process needs it
            actor_settings = ActorSettings.of(settings, where, joined.cluster_id, gone=tuple(gone), sweeper=restore_sweeper)
            await take_office(store, actor_settings.release, roll_back=roll_back, other_builds=publishes)
            if lift:
                await store.withhold(EVERYWHERE, lift=True)
            await in_daemon(end_other_releases, actor_settings, roll_back=roll_back)
            ensure_sweeper(actor_settings, avoid=await store.withheld())
            here = await Here.of(app, app_path) if app is not None and app_path is not None else None
            if here is not None and publishes:
                await publish(store, actor_settings, cast("bytes", key), here)
            elif here is not None:
                await _compare(store, where, key, here)
        except BaseException:
            await in_daemon(clusters.leave, joined)
            raise
        links = LinkSettings(settings.link_keys, settings.public_url) if settings.link_keys else None
        return cls(store, actor_settings, joined, publishes=publishes, links=links)

    async def workers(self) -> int:
        """How many workers of the store live, of every release; `ClusterUnavailable` if this process is in no cluster."""
        return sum(":worker:" in name for name in await in_daemon(named, self.settings.family))

    async def deliver(self, delivery: Delivery) -> DeliveryResult:
        """The result of a delivery. No command is sent if another cluster has the store, and no start of an unpublished app."""
        try:
            command = delivery.command
            if delivery.proves and isinstance(command, Request) and command.proven is not None:
                if self._servers_key is None:
                    self._servers_key = await in_daemon(Vault(self.settings.store).servers_key)
                delivery.command = signed(self._servers_key, self.settings.store, delivery.conversation_id, command)
            if isinstance(command, Start):
                await self.check_published(command.app, command.agent)
            await self._bond.check(within_s=delivery.left_s)
        except HoldfastError as error:
            return delivery.given_up(error)
        if isinstance(command, Start | Send) and not delivery.handed and (delivery.proves or command.proven is None):
            return await self._messages.accepted(delivery) or await self._registry.deliver(delivery)
        return await self._registry.deliver(delivery)

    async def check_published(self, app: str, agent: str) -> None:
        """Check that an agent is published, else `AppNotPublished` or `AgentNotFound`; needless if this client publishes."""
        if self._publishes or (app, agent) in self._published:
            return
        record = await self._store.app(app)
        if record is None:
            raise AppNotPublished(app)
        if agent not in record.agents:
            known = ", ".join(map(repr, record.agents)) or "none"
            fix = f"publish the app as it is here, with holdfast up, or use one of its agents: {known}"
            raise AgentNotFound("agent", f"the published app {app!r} has no agent {agent!r}", fix)
        self._published.add((app, agent))

    async def held(self, conversation_id: str, *, timeout_s: float = 60) -> int:
        """The id of the process that hosts the conversation, on its own machine; an actor takes it up if none hosts it."""
        await self._registry.ensure_started(conversation_id, timeout_s=timeout_s)
        pid = await self._registry.pid(conversation_id)
        if pid is None:
            raise ClusterUnavailable("the actor that took the conversation up has left it")
        return pid

    async def pid(self, conversation_id: str) -> int | None:
        """The id of the process that hosts the conversation now, on its own machine; None if there is none."""
        return await self._registry.pid(conversation_id)

    async def close(self) -> None:
        """Leave Ray, if this client joined it."""
        await self._tasks.close()
        await self._messages.close()
        await self._registry.close()
        await in_daemon(clusters.leave, self.cluster)


def _key(settings: Settings, where: StoreAddress, *, makes: bool) -> bytes | None:
    """The key that signs app records. A missing key is made only for a client that publishes or brings one."""
    vault, brought = Vault(where), settings.app_key
    if brought is None and settings.ray_address is None:  # the next Ray of this home is to accept what this one signed
        brought = bytes.fromhex(Home.open(settings.home).secret("app.key"))
    if brought is None and not makes:
        return vault.key()
    return vault.ensure_key(brought, must_be=settings.app_key is not None)


async def _compare(store: Directory, where: StoreAddress, key: bytes | None, here: Here) -> None:
    """Warn of the differences between the published app and the app here; the published app stays."""
    record = await store.app(here.path)
    if record is None:  # a start is refused then, with the fix
        return
    if vouched(key, where, here.path, record):
        found = here.differs(key, record)
        if not found:
            return
        said = f"differs here from what is published, and conversations run with what is published: {'; '.join(found)}"
    else:
        said = "has a record in the store that this cluster did not sign, and its conversations wait"
    fix = f"to publish it as it is here: holdfast up --app {shlex.quote(here.path)}, or connect(publish=True)"
    warnings.warn(f"holdfast: the app {here.path} {said}; {fix}", AppDiffersWarning, stacklevel=2)
