"""The drain of a server process: streams and long polls end, other requests are finished."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Draining(asyncio.Event):
    """The beginning of this process's drain, which never goes back."""

    async def unless(self, work: Awaitable[T]) -> T | None:
        """The result of work; None if the drain begins first, which cancels the work."""
        doing, ending = asyncio.ensure_future(work), asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait({doing, ending}, return_when=asyncio.FIRST_COMPLETED)
            return doing.result() if doing.done() else None
        finally:
            ending.cancel()
            doing.cancel()
            await asyncio.gather(doing, ending, return_exceptions=True)
