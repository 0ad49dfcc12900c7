"""Keeping the store's sweeper alive, also while no client connects."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.persistence import EVERYWHERE, Directory

logger = logging.getLogger("holdfast.worker")

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
