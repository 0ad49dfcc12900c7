"""The sweeper: looks after what needs attention, keeps the pool filled, says that this cluster lives.

Two of them only look twice. While no Ray cluster runs nothing is swept; what is due is delivered first when one comes back.
"""

import asyncio
import logging
import time
from typing import Any

import ray

from holdfast.actors import RAY_NAMESPACE, ActorSettings, Failed
from holdfast.conversation import HoldfastError, StoreError, Wake, due_at
from holdfast.persistence import RedisStore

from . import cluster
from .registry import Registry, warmed

logger = logging.getLogger("holdfast.sweeper")

AT_ONCE = 16
WAKE_TIMEOUT_S = 30.0
BATCH = 100
LONGEST_DELAY_S = 300.0
HIRE_AGAIN_S = 10.0


class Sweeper:
    """Ticks for ever, from the moment its process starts."""

    def __init__(self, settings: ActorSettings) -> None:
        self._settings = settings
        self._waking: set[str] = set()
        self._limit = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._hiring = 0
        self._hire_at = 0.0
        self._delay_s: dict[str, float] = {}
        self._again_at: dict[str, float] = {}
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def ping(self) -> bool:
        """Whether it ticks."""
        return not self._task.done()

    async def _run(self) -> None:
        address = self._settings.store
        store = RedisStore(address.redis_url, namespace=address.namespace, store_id=address.store_id)
        registry = Registry(store, self._settings)
        healthy_since: float | None = None
        while True:
            try:
                await self._tick(store, registry, self._healthy(healthy_since))
                healthy_since = healthy_since or time.monotonic()
            except StoreError as error:
                healthy_since = None
                logger.warning("the store: %s", error)
            except Exception:
                logger.exception("a tick failed")
            await asyncio.sleep(self._settings.timing.tick_ms / 1000)

    def _healthy(self, since: float | None) -> bool:
        """Whether the store has been there for a lease's length, so that an expired lease means what it says."""
        return since is not None and time.monotonic() - since >= self._settings.timing.lease_ms / 1000

    async def _tick(self, store: RedisStore, registry: Registry, healthy: bool) -> None:  # noqa: FBT001 - private
        here = cluster.current()
        if await store.bind(here.cluster_id, here.address, cluster.BINDING_STALE_MS) is not None:
            logger.error("the store is bound to another cluster: nothing is swept here")
            return
        due = await store.attention(BATCH)
        for conversation_id in due.conversation_ids:
            if conversation_id not in self._waking and self._again_at.get(conversation_id, 0) <= time.monotonic():
                self._waking.add(conversation_id)
                task = asyncio.create_task(self._wake(store, registry, conversation_id, healthy))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        await self._refill(store)

    async def _wake(self, store: RedisStore, registry: Registry, conversation_id: str, healthy: bool) -> None:  # noqa: FBT001 - private
        try:
            async with self._limit:
                if not healthy and await self._owner_lives(store, conversation_id):
                    return
                answer = await registry.ask(conversation_id, Wake(), timeout_s=WAKE_TIMEOUT_S)
                if isinstance(answer, Failed):
                    raise answer.error  # noqa: TRY301 - one place says what follows
            self._delay_s.pop(conversation_id, None)
            self._again_at.pop(conversation_id, None)
        except (HoldfastError, TimeoutError) as error:
            self._later(conversation_id)
            logger.warning("%s could not be woken: %s", conversation_id, error or type(error).__name__)
        except Exception:
            logger.exception("%s could not be woken", conversation_id)
        finally:
            self._waking.discard(conversation_id)

    def _later(self, conversation_id: str) -> None:
        """Leave a conversation that cannot be woken in peace for a while, longer each time."""
        delay_s = min(2 * self._delay_s.get(conversation_id, 0.25), LONGEST_DELAY_S)
        self._delay_s[conversation_id] = delay_s
        self._again_at[conversation_id] = time.monotonic() + delay_s

    async def _owner_lives(self, store: RedisStore, conversation_id: str) -> bool:
        """Whether an owner is there that can still renew: before the store was healthy for a lease, it is left in peace."""
        owner = await store.owner(conversation_id)
        state = await store.load(conversation_id)
        due = due_at(state)
        deadline_passed = due is not None and due <= await store.now()
        if owner is None or not owner.holder or deadline_passed:
            return False
        try:
            return ray.get_actor(owner.holder, namespace=RAY_NAMESPACE) is not None
        except ValueError:
            return False

    async def _refill(self, store: RedisStore) -> None:
        if time.monotonic() < self._hire_at:
            return
        missing = self._settings.fleet.standby - await store.offers() - self._hiring
        for _ in range(missing):
            self._hiring += 1
            task = asyncio.create_task(self._warm())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _warm(self) -> None:
        try:
            await warmed(self._settings, offer=True)
        except Exception:
            self._hire_at = time.monotonic() + HIRE_AGAIN_S
            logger.exception("an actor could not be warmed")
        finally:
            self._hiring -= 1


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
