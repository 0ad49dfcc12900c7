"""The sweeper: a `Sweep` in a detached, named actor that Ray restarts for ever; it also says that this cluster lives.

While no Ray cluster runs nothing is swept; what is due is delivered first when one comes back.
"""

import asyncio
import logging
from typing import Any

import ray

from holdfast.actors import RAY_NAMESPACE, ActorSettings, StoreAddress
from holdfast.conversation import HomeUnusable, StoreError
from holdfast.persistence import RedisStore
from holdfast.persistence.home import Home

from . import cluster
from .ray_actors import RayActors
from .revival import Revival
from .sweep import Sweep
from .watch import Watch

REVIVAL_S = 60.0

logger = logging.getLogger("holdfast.sweeper")


class Sweeper:
    """Ticks for ever, from the moment its process starts."""

    def __init__(self, settings: ActorSettings) -> None:
        self._settings = settings
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run())
        self._watching = loop.create_task(Watch(settings).run())

    async def ping(self) -> bool:
        """Whether it ticks."""
        return not self._task.done()

    async def _run(self) -> None:
        address, timing = self._settings.store, self._settings.timing
        revive = _revival(address)
        store = RedisStore(address.redis_url, namespace=address.namespace, store_id=address.store_id, revive=revive)
        sweep = Sweep(store, RayActors(self._settings), timing=timing, fleet=self._settings.fleet)
        while True:
            try:
                here = cluster.current()
                if await store.bind(here.cluster_id, here.address, cluster.BINDING_STALE_MS) is None:
                    await sweep.tick()
                else:
                    logger.error("the store is bound to another cluster: nothing is swept here")
            except StoreError as error:
                sweep.store_away()
                logger.warning("the store: %s", error)
            except Exception:
                logger.exception("a tick failed")
            await asyncio.sleep(timing.tick_ms / 1000)


def _revival(address: StoreAddress) -> Revival | None:
    """What starts the embedded Redis again that died, when only actors are left, which have deadlines to keep."""
    if not address.home:
        return None
    try:
        home = Home.open(address.home)
    except HomeUnusable:
        logger.exception("the embedded Redis could not be started again from here")
        return None
    return Revival(lambda: home, deadline_s=REVIVAL_S)


_RemoteSweeper = ray.remote(Sweeper)


def ensure_sweeper(settings: ActorSettings) -> Any:
    """The handle of this store's sweeper, made if there is none. Ray restarts it for ever."""
    return _RemoteSweeper.options(
        name=f"{settings.prefix}sweeper",
        namespace=RAY_NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        num_cpus=0,
        max_restarts=-1,
    ).remote(settings)
