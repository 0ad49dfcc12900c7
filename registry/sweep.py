"""Sweeping, on interfaces: what a `Sweeper` does, without Ray.

What needs attention is woken, the pool is kept filled. Two who sweep only look twice.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any

from holdfast.actors import Failed, Fleet, Timing
from holdfast.conversation import HoldfastError, StoreError, Wake, due_at
from holdfast.persistence import Store

from .actors import Actors, ActorUnavailable
from .hiring import RESERVE, Hiring, NoRoom
from .registry import Registry

logger = logging.getLogger("holdfast.sweeper")

AT_ONCE = 16
WAKE_TIMEOUT_S = 30.0
BATCH = 100
LONGEST_DELAY_S = 300.0
HIRE_AGAIN_S = 10.0
QUIET_MS = 5_000
LOOKS = 3
"""In how many ticks after each other the pool must have been short before it is filled."""


class Sweep:
    """One who sweeps; `tick` is to be called again and again."""

    def __init__(self, store: Store, actors: Actors, *, timing: Timing, fleet: Fleet) -> None:
        self._store = store
        self._actors = actors
        hiring = Hiring(store, actors, timing=timing, fleet=fleet, reserve=RESERVE)
        self._registry = Registry(store, actors, hiring=hiring, timing=timing)
        self._pool = Hiring(store, actors, timing=timing, fleet=fleet)
        self._timing = timing
        self._fleet = fleet
        self._waking: set[str] = set()
        self._limit = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._healthy_since: float | None = None
        self._hiring = 0
        self._hire_at = 0.0
        self._missing: deque[int] = deque(maxlen=LOOKS)
        self._delay_s: dict[str, float] = {}
        self._again_at: dict[str, float] = {}

    async def tick(self) -> None:
        """Begin to wake what needs attention and to hire what the pool lacks.

        Raises:
            StoreError: The store is away; from now on it must be healthy for a lease's length before a lease's end counts.
        """
        healthy = self._healthy()
        try:
            due = await self._store.attention(BATCH)
            for conversation_id in due.conversation_ids:
                if conversation_id not in self._waking and self._again_at.get(conversation_id, 0) <= _now():
                    self._waking.add(conversation_id)
                    self._begin(self._wake(conversation_id, healthy))
            await self._pool.reap(quiet_ms=max(self._timing.lease_ms // 2, QUIET_MS))
            await self._refill()
        except StoreError:
            self.store_away()
            raise
        if self._healthy_since is None:
            self._healthy_since = _now()

    def store_away(self) -> None:
        """Note that the store did not answer: who could not renew meanwhile is not to be deposed for that."""
        self._healthy_since = None

    def _healthy(self) -> bool:
        """Whether the store has been there for a lease's length, so that an expired lease means what it says."""
        return self._healthy_since is not None and _now() - self._healthy_since >= self._timing.lease_ms / 1000

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wake(self, conversation_id: str, healthy: bool) -> None:  # noqa: FBT001 - private
        try:
            async with self._limit:
                if not healthy and await self._owner_lives(conversation_id):
                    return
                answer = await self._registry.ask(conversation_id, Wake(), timeout_s=WAKE_TIMEOUT_S)
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
        self._again_at[conversation_id] = _now() + delay_s

    async def _owner_lives(self, conversation_id: str) -> bool:
        """Whether an owner is there that can still renew: before the store was healthy for a lease, it is left in peace."""
        owner = await self._store.owner(conversation_id)
        state = await self._store.load(conversation_id)
        due = due_at(state)
        deadline_passed = due is not None and due <= await self._store.now()
        if owner is None or not owner.holder or deadline_passed:
            return False
        if not self._actors.judges(owner.holder):
            return True  # another cluster's: whether it lives is not known here
        return await self._actors.find(owner.holder) is not None

    async def _refill(self) -> None:
        if _now() < self._hire_at:
            return
        self._missing.append(self._fleet.standby - await self._store.offers() - self._hiring)
        for _ in range(min(self._missing)):  # under load the pool runs short for moments: a process costs more than that
            self._hiring += 1
            self._begin(self._hire())

    async def _hire(self) -> None:
        try:
            await self._pool.hire(offer=True)
        except NoRoom:
            self._hire_at = _now() + 1
        except (ActorUnavailable, HoldfastError) as error:
            self._hire_at = _now() + HIRE_AGAIN_S
            logger.warning("an actor could not be warmed: %s", error)
        finally:
            self._hiring -= 1


def _now() -> float:
    return asyncio.get_running_loop().time()
