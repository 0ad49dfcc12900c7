"""The way of a command: over Ray to the actor that hosts the conversation."""

import logging
import os
import time
from collections.abc import Callable, Sequence

from holdfast.actors import ActorSettings, StoreAddress
from holdfast.actors.settings import release_with
from holdfast.agent import App, code_digest, main_file, python_path
from holdfast.conversation import CipherMissing, Command, Reply
from holdfast.conversation.ids import digest
from holdfast.persistence import AppRecord, CipherAt, RedisStore
from holdfast.persistence.home import Home
from holdfast.registry import Settings
from holdfast.registry import cluster as clusters
from holdfast.registry.daemon import in_daemon
from holdfast.registry.hiring import Hiring
from holdfast.registry.ray_actors import RayActors
from holdfast.registry.registry import Registry
from holdfast.registry.releases import take_office
from holdfast.registry.sweeper import ensure_sweeper, restore_sweeper
from holdfast.registry.turnover import end_other_releases

from .delivery import deliver

logger = logging.getLogger("holdfast.client")


class RayTransport:
    """Commands to actors, each repeated with the same ids until it is answered or its deadline passes."""

    def __init__(self, store: RedisStore, settings: ActorSettings, joined: clusters.Cluster) -> None:
        self.settings = settings
        self.cluster = joined
        self._bond = clusters.Bond(store, joined)
        actors = RayActors(settings)
        hiring = Hiring(store, actors, timing=settings.timing, fleet=settings.fleet)
        self._registry = Registry(store, actors, hiring=hiring, timing=settings.timing)

    @classmethod
    async def open(
        cls,
        store: RedisStore,
        settings: Settings,
        address: str,
        app: App | None,
        app_path: str | None,
        *,
        gone: Sequence[str] = (),
        roll_back: bool = False,
        say: Callable[[str], None] = logger.warning,
    ) -> "RayTransport":
        """Join Ray, bind the store to it, end what an older release has left there, ensure sweeper and workers.

        Args:
            store: The store.
            settings: The settings in force.
            address: Where Ray is.
            app: The app that was named, if any.
            app_path: Its import path.
            gone: Clusters that are proven to be gone, to which the store may still be bound.
            roll_back: Whether this release may take the place of a newer one.
            say: Told one line if there is something to wait for.

        Raises:
            ClusterUnavailable: Ray does not answer.
            WrongCluster: The store is bound to another cluster, which lives.
            OlderRelease: A newer release serves the store.
            ConfigurationError: The process is in another cluster, or versions differ.
            CipherMissing: Payloads are encrypted, and this client names no cipher. Nothing was changed.
            CipherFailed: The cipher does not give back what it encrypts. Nothing was changed.
        """
        cipher = await _checked_cipher(store)
        joined = await in_daemon(clusters.join, address, embedded=settings.ray_address is None)
        try:
            await clusters.bind(store, joined, gone=gone, say=say)
            home = str((await in_daemon(Home.open, settings.home)).path) if settings.redis_url is None else ""
            where = StoreAddress(
                redis_url=store.url,
                namespace=store.namespace,
                store_id=store.store_id or "",
                home=home,
                cipher=cipher,
            )
            actor_settings = ActorSettings(
                store=where,
                timing=settings.timing,
                fleet=settings.fleet,
                release=release_with(cipher),
                cluster=joined.cluster_id,
                gone=tuple(gone),
                sweeper=restore_sweeper,
            )
            await take_office(store, actor_settings.release, roll_back=roll_back)
            await in_daemon(end_other_releases, actor_settings, roll_back=roll_back)
            ensure_sweeper(actor_settings)
            if app is not None and app_path is not None:
                await _record(store, actor_settings, app, app_path)
        except BaseException:
            await in_daemon(clusters.leave, joined)
            raise
        return cls(store, actor_settings, joined)

    async def ask(
        self, conversation_id: str, command: Command, *, what: str, retry_id: str, timeout_s: float, create: bool = False
    ) -> Reply:
        """Have a command judged; its reply, once what it led to is durable.

        Raises:
            OutcomeUnknown: No answer within the deadline; `retry_id` makes a repetition safe.
            WrongCluster: Another cluster has the store now.
            HoldfastError: The command was refused.
        """
        began = time.monotonic()
        await self._bond.check(within_s=timeout_s)
        left_s = timeout_s - (time.monotonic() - began)
        return await deliver(
            self._registry, conversation_id, command, what=what, retry_id=retry_id, timeout_s=left_s, create=create
        )

    async def pid(self, conversation_id: str) -> int | None:
        """The process that hosts the conversation now, None if none does; on the machine where it runs."""
        return await self._registry.pid(conversation_id)

    async def close(self) -> None:
        """Leave Ray, if this client joined it."""
        await self._registry.close()
        await in_daemon(clusters.leave, self.cluster)


async def _checked_cipher(store: RedisStore) -> CipherAt | None:
    """The cipher of a store's payloads, with the folder where this process found it, for those that do not find it there."""
    cipher = store.payloads.cipher
    if not isinstance(cipher, CipherAt):
        if await store.encrypted():
            raise CipherMissing(f"namespace {store.namespace!r}")
        return None
    found = await in_daemon(cipher.found)
    store.payloads.check()
    return found


async def _record(store: RedisStore, settings: ActorSettings, app: App, path: str) -> None:
    """Say what stands for the app from now on, and have its workers there before they are needed."""
    from holdfast.actors import hire, worker_name  # noqa: PLC0415 - resolved here, after Ray was joined

    environment = app.environment(os.environ)
    paths = tuple(python_path())
    values = [part for item in sorted(environment.items()) for part in item]
    # Workers are told apart by all of this; of the environment's values only this digest is ever stored.
    code = digest(settings.store.store_id, await in_daemon(code_digest, path), *paths, "", *values)
    record = AppRecord(
        app=path,
        code=code,
        python_path=paths,
        main_file=main_file(path),
        environment=tuple(sorted(environment)),
        agents={agent.name: agent.spec.digest for agent in app.agents},
    )
    await store.put_app(record, [agent.spec for agent in app.agents])
    for slot in map(str, range(settings.fleet.workers)):
        generation = await store.generation(worker_name(settings, path, code, slot))
        hire(settings, record, slot, environment, generation=generation).prepare.remote(environment)
