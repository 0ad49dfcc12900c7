"""The restart of an embedded Redis that died while processes use it."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.backoff import Backoff
from holdfast.daemon import in_daemon
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.single_flight import SingleFlight

from .home import Home
from .local_redis import redis_stopped, revive_redis

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
QUIET_S = 60.0
"""How long a restarted server must run before the pauses start again at the shortest, in seconds."""

logger = logging.getLogger("holdfast.embedded")


class Revival:
    """Restarts a home's Redis: once for all concurrent callers, and at growing intervals.

    A server that was stopped on purpose (`holdfast down`) is not restarted.
    """

    def __init__(self, home: Callable[[], Home], *, deadline_s: float, announce: Callable[[str], None] | None = None) -> None:
        self._home = home
        self._deadline_s = deadline_s
        self._announce = announce
        self._reviving = SingleFlight(self._revive)
        self._backoff = Backoff(FIRST_DELAY_S, LONGEST_DELAY_S)
        self._next_at = 0.0
        self.stopped = False

    async def __call__(self) -> bool:
        """Whether the server answers again; False while the last try is too recent for another."""
        if not self._reviving.under_way and asyncio.get_running_loop().time() < self._next_at:
            return False
        return await self._reviving.result()

    async def close(self) -> None:
        """Stop waiting for a start."""
        await self._reviving.close()

    async def _revive(self) -> bool:
        if asyncio.get_running_loop().time() > self._next_at + QUIET_S:
            self._backoff.pause_s = FIRST_DELAY_S
        try:
            await in_daemon(self._start)
        except HoldfastError as error:
            logger.warning("the embedded Redis could not be started again: %s", error)
            raise
        finally:
            self._next_at = asyncio.get_running_loop().time() + self._backoff.next_s()
        return True

    def _start(self) -> None:
        home = self._home()
        if redis_stopped(home):
            self.stopped = True
            raise StoreUnavailable(f"the Redis server of the home {home.path} was stopped; run: holdfast up --home {home.path}")
        revive_redis(home, deadline_s=self._deadline_s, announce=self._announce)
