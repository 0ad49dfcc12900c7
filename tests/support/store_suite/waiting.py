"""Waiting for a condition, with a deadline."""

import asyncio
import time
from collections.abc import Awaitable, Callable

WITHIN_S = 20.0
"""How many seconds to wait before a condition counts as never true; a guard, not a measurement."""


async def until(condition: Callable[[], Awaitable[bool]], within_s: float = WITHIN_S) -> None:
    """Return once the condition holds.

    Raises:
        AssertionError: The condition did not come true in time.
    """
    deadline = time.monotonic() + within_s
    while not await condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not come true within {within_s:g} s")
        await asyncio.sleep(0.005)
