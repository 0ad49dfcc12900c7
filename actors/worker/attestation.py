"""Saying in the store that a worker's incarnation lives: actors of another cluster, which cannot ask it, trust its claims."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.errors import StoreError
from holdfast.log_context import about_nothing
from holdfast.persistence import Runs

logger = logging.getLogger("holdfast.worker")

VALID_MS = 15_000
"""For how long one attestation holds, by the store's clock."""
EVERY_S = 3.0
SMALL = 8
"""Beyond so many claims, their number is said whenever it has doubled, and not only every few seconds."""

_T = TypeVar("_T")


class Attestation:
    """The attestation of one incarnation: one write every few seconds, however many runs it has, and none without a run."""

    def __init__(self, incarnation: str) -> None:
        self._incarnation = incarnation
        self._said_at = -math.inf
        self._said = 0
        self._runs = 0
        self._saying: asyncio.Task[None] | None = None

    async def during(self, store: Runs, run: Callable[[], Awaitable[_T]]) -> _T:
        """Carry a run out; its result. The incarnation is attested from before the claim until the outcome is recorded.

        Raises:
            StoreError: The store does not answer, and the run was not begun.
        """
        self._runs += 1
        try:
            if asyncio.get_running_loop().time() - self._said_at >= EVERY_S or self._runs > max(2 * self._said, SMALL):
                await self._say(store)
        except BaseException:
            self._runs -= 1
            raise
        if self._saying is None:
            with about_nothing():
                self._saying = asyncio.create_task(self._go_on(store))
        try:
            return await run()
        finally:
            self._runs -= 1
            if not self._runs:
                self._saying.cancel()
                self._saying = None

    async def _go_on(self, store: Runs) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self._say(store)
            except StoreError as error:
                logger.warning("that incarnation %s lives could not be said: %s", self._incarnation, error)

    async def _say(self, store: Runs) -> None:
        asked_at, claims = asyncio.get_running_loop().time(), self._runs
        self._said = claims
        await store.attest(self._incarnation, VALID_MS, company=claims)
        self._said_at = asked_at
