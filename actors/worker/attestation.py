"""Background duties of a worker: attest in the store that it lives, for actors of other clusters, and keep a sweeper alive."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.errors import StoreError
from holdfast.persistence import EVERYWHERE, Directory, Runs
from holdfast.work_context import about_nothing

logger = logging.getLogger("holdfast.worker")

VALID_MS = 15_000
"""How long (ms) one attestation holds, by the store's clock."""
EVERY_S = 3.0
SMALL = 8
"""Above this number of claims, the number is also stored whenever it has doubled, not only every `EVERY_S`."""

_T = TypeVar("_T")


class Attestation:
    """The attestation of one incarnation: one write every few seconds for all its runs, and none without a run."""

    def __init__(self, incarnation: str) -> None:
        self._incarnation = incarnation
        self._said_at = -math.inf
        self._said = 0
        self._runs = 0
        self._saying: asyncio.Task[None] | None = None

    async def during(self, store: Runs, run: Callable[[], Awaitable[_T]]) -> _T:
        """Carry out a run, attested from before its claim until its outcome is recorded; not begun if the store is away."""
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
                logger.warning("incarnation %s could not attest that it lives: %s", self._incarnation, error)

    async def _say(self, store: Runs) -> None:
        asked_at, claims = asyncio.get_running_loop().time(), self._runs
        self._said = claims
        await store.attest(self._incarnation, VALID_MS, claims=claims)
        self._said_at = asked_at


LOOK_EVERY_S = 5.0


async def keep_sweeper(ensure: Callable[..., object], release: str, connected: Callable[[], Awaitable[Directory]]) -> None:
    """Have a missing sweeper made, every few seconds, while this release serves the store and Holdfast is not stopped."""
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        try:
            store = await connected()
            withheld = await store.withheld()
            if EVERYWHERE not in withheld and await store.serving() == release:
                await asyncio.to_thread(ensure, avoid=withheld)
        except Exception as error:  # noqa: BLE001 - whatever the error is, the next check may succeed
            logger.warning("it could not be checked whether the sweeper runs: %s", error)
