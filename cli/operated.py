"""The cluster and the store for an operator's command, which joins running servers, and starts or changes nothing."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from holdfast.actors.actor_settings import ActorSettings, StoreAddress
from holdfast.embedded.home import Home
from holdfast.embedded.local_ray import running_ray
from holdfast.embedded.local_redis import running_redis
from holdfast.errors import ClusterUnavailable, ConfigurationError, CorruptStore
from holdfast.persistence import Binding, Store, opened
from holdfast.persistence.keys import STORE_ID, Keys
from holdfast.registry import cluster
from holdfast.registry.encryption import checked_cipher

from .options import Where

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoreStanding:
    """A store's id, its binding to a cluster, and the release of Holdfast that serves it; each None where it is missing.

    `wrong` has the errors of those that cannot be read, by their keys.
    """

    store_id: str | None = None
    bound: Binding | None = None
    release: str | None = None
    wrong: Mapping[str, CorruptStore] = field(default_factory=dict)


async def store_standing(url: str, namespace: str) -> StoreStanding:
    """The id, binding and release of a store, as far as they can be read."""
    store, keys = opened(url, namespace=namespace), Keys(namespace)
    wrong: dict[str, CorruptStore] = {}

    async def read(key: str, reading: Awaitable[T]) -> T | None:
        try:
            return await reading
        except CorruptStore as error:
            wrong[key] = CorruptStore(f"{key}: {error.what}")
            return None

    try:
        return StoreStanding(
            bound=await read(keys.meta("cluster"), store.binding()),
            release=await read(keys.meta("release"), store.serving()),
            store_id=await read(STORE_ID, store.identity()),
            wrong=wrong,
        )
    finally:
        await store.close()


@dataclass(frozen=True, slots=True)
class Operated:
    """A store, opened, and the settings and the cluster of its actors."""

    store: Store
    settings: ActorSettings
    joined: cluster.Cluster

    async def making(self) -> ActorSettings:
        """The settings for new actors, with the cipher and where this process found it."""
        return replace(self.settings, store=replace(self.settings.store, cipher=await checked_cipher(self.store)))


@asynccontextmanager
async def operated(where: Where) -> AsyncIterator[Operated]:
    """The store and the cluster of the settings. Unlike a client, it does not bind the store and makes no sweeper."""
    settings = where.settings()
    home = Home.open(settings.home) if settings.ray_address is None or settings.redis_url is None else None
    embedded = running_ray(home) if home is not None and settings.ray_address is None else None
    address = settings.ray_address or (embedded.address if embedded is not None else None)
    url = settings.redis_url or (running_redis(home) if home is not None else None)
    if url is None or address is None:
        what = "Redis" if url is None else "Ray"
        raise ClusterUnavailable(f"the home's {what} does not run, so nothing of Holdfast does")
    standing = await store_standing(url, settings.namespace)
    for error in standing.wrong.values():
        raise error
    if standing.store_id is None or standing.release is None:
        problem = f"Holdfast was never at work in {settings.namespace!r} of that Redis"
        raise ConfigurationError("namespace", problem, "correct --namespace (HOLDFAST_NAMESPACE) or --redis-url")
    if embedded is not None:
        os.environ.update(embedded.env)
    joined = await asyncio.to_thread(cluster.join, address, embedded=embedded is not None)
    cipher = settings.cipher_at
    store = opened(url, namespace=settings.namespace, store_id=standing.store_id, cipher=cipher)
    try:
        bound = standing.bound
        elsewhere = bound is not None and bound.cluster.partition("@")[0] != joined.cluster_id
        if bound is not None and elsewhere and bound.age_ms < cluster.BINDING_STALE_MS:
            raise cluster.wrong(bound, joined)
        await store.open()
        from holdfast.registry.sweeper import restore_sweeper  # noqa: PLC0415 - once Ray was joined

        kept_in = str(home.path) if home is not None and settings.redis_url is None else ""
        place = StoreAddress(url, settings.namespace, standing.store_id, kept_in, cipher)
        gone = embedded.gone if embedded is not None else ()
        actors = ActorSettings.of(settings, place, joined.cluster_id, gone=gone, sweeper=restore_sweeper)
        yield Operated(store, actors, joined)
    finally:
        await store.close()
        await asyncio.to_thread(cluster.leave, joined)
