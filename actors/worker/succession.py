"""When a worker gives way to its successor: after long use, growth or idleness, or when it should end."""

import contextlib
import logging
import math
import time
from collections.abc import Callable

from holdfast.actors.actor_settings import WorkerSettings
from holdfast.actors.memory import allowed_mb, resident_mb
from holdfast.actors.placement import drained
from holdfast.conversation import Status
from holdfast.errors import StoreError
from holdfast.persistence import EVERYWHERE, AppRecord, Directory, Lists, Store

logger = logging.getLogger("holdfast.worker")


class Succession:
    """The end of one worker's term, and the handover to its successor.

    Attributes:
        succeeded: Whether the successor has taken over, or will once the store is back.
        foreign: Whether another release served the store at the last look; clients of this one may still be connected.
        effects: How many effects this worker has begun.
        asked_at: When it was last asked for work, by the monotonic clock.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self.succeeded = self.foreign = False
        self.effects = 0
        self.asked_at = time.monotonic()
        self._settings, self._limits = settings, settings.actors.process_limits
        self._allowed_mb = math.inf

    def opened(self) -> None:
        """Limit the growth of this process from its size now, when the app is open."""
        self._allowed_mb = allowed_mb(self._limits.worker_mb)

    async def begin(self, store: Directory) -> None:
        """Refuse new work, and let the successor take over; if the store is away, `hand_over` repeats that."""
        self.succeeded = True
        with contextlib.suppress(StoreError):
            await self._put_successor(store)

    async def hand_over(self, store: Directory, *, held: bool) -> None:
        """Let a successor take over once this process is used up, too large, due to end, or `held` by abandoned callbacks."""
        settings = self._settings
        if await store.generation(settings.base) > settings.generation:
            self.succeeded = True
        self.foreign = await store.serving() not in (None, settings.actors.release)
        withheld = await store.withheld()  # `EVERYWHERE`: Holdfast was stopped while this worker was just being made
        worn = (
            held
            or EVERYWHERE in withheld
            or await drained(withheld)
            or self.effects >= self._limits.effects
            or resident_mb() > self._allowed_mb
        )
        if worn and not self.succeeded:
            logger.info("%s is succeeded after %d effects, at %.0f MiB", settings.name, self.effects, resident_mb())
        if worn or self.succeeded:  # again, as the store may have been away the last time
            await self._put_successor(store)
            self.succeeded = True

    async def end_unless_used(
        self, store: Store, record: AppRecord | None, used_at: float, working: Callable[[], bool]
    ) -> None:
        """Give way to a successor if this worker was not used for `worker_idle_s` since `used_at`.

        The successor is made once an actor asks for it. An actor that asks this worker meanwhile is refused, and asks again.
        """
        idle_s = self._limits.worker_idle_s
        if not idle_s or self.succeeded or time.monotonic() - used_at < idle_s:
            return
        if record is not None and await under_way(store, record):
            self.asked_at = time.monotonic()  # the turn's actor may ask at any moment: look again after `idle_s`
        elif self.asked_at <= used_at and not working():  # no request came while the store was read
            logger.info("%s: nothing was asked of it for %d s", self._settings.name, idle_s)
            await self.begin(store)

    async def _put_successor(self, store: Directory) -> None:
        base, generation = self._settings.base, self._settings.generation + 1
        if await store.generation(base) < generation:
            await store.succeed(base, generation)


async def under_way(store: Lists, record: AppRecord) -> bool:
    """Whether a turn of the app's agents is at a model call or runs tools: a suspended turn needs no worker."""
    for agent in record.agents:
        for status in (Status.GENERATING, Status.EXECUTING_TOOLS):
            if (await store.conversations(limit=1, agent=agent, status=status)).items:
                return True
    return False
