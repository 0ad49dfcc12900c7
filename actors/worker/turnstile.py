"""A turnstile: it lets a limited number of callers in at once, in the order in which they came."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

KEEP_S = 60.0
"""For how long the place of a caller who has left the line is kept."""
MOST_WAITING = 10_000


class NotYet(Exception):
    """The caller's turn did not come in time; a caller who comes back soon has kept the place in the line."""


@dataclass(slots=True, eq=False)
class _Place:
    waiter: asyncio.Future[None] | None = None
    left_at_s: float = 0.0


class Turnstile:
    """Lets `places` callers in at once. A caller who stops waiting and soon comes back with the same ticket keeps the place.

    So no caller has to wait within one call for as long as it takes, and none who asks again and again is overtaken for ever.
    """

    def __init__(self, places: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._free = places
        self._clock = clock
        self._line: OrderedDict[Hashable, _Place] = OrderedDict()

    async def enter(self, ticket: Hashable, within_s: float) -> None:
        """Go through when it is the ticket's turn; `leave` gives the place back.

        Raises:
            NotYet: The ticket's turn did not come within this time, the ticket waits already, or too many wait.
        """
        place = self._line.get(ticket) or _Place()
        if place.waiter is not None:
            message = "this ticket waits already"
            raise NotYet(message)
        if self._free > 0 and not self._before(place):
            self._line.pop(ticket, None)
            self._free -= 1
            return
        if ticket not in self._line:
            self._drop_those_who_left()
            if len(self._line) >= MOST_WAITING:
                message = f"{len(self._line)} wait for their turn here"
                raise NotYet(message)
            self._line[ticket] = place
        waiter = place.waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(within_s):
                await waiter
        except TimeoutError:
            if not (waiter.done() and not waiter.cancelled()):
                place.waiter, place.left_at_s = None, self._clock()
                message = f"it has waited {within_s:g} s for its turn; {len(self._line)} are in the line"
                raise NotYet(message) from None
        except asyncio.CancelledError:
            place.waiter, place.left_at_s = None, self._clock()
            if waiter.done() and not waiter.cancelled():
                self.leave()
            else:
                self._line.pop(ticket, None)
            raise

    def leave(self) -> None:
        """Give a place back; the first caller in the line who still waits goes through."""
        self._free += 1
        for ticket, place in self._line.items():
            if place.waiter is not None and not place.waiter.done():
                del self._line[ticket]
                self._free -= 1
                place.waiter.set_result(None)
                return

    def _before(self, place: _Place) -> bool:
        """Whether a caller who still waits stands before this place in the line."""
        for other in self._line.values():
            if other is place:
                return False
            if other.waiter is not None:
                return True
        return False

    def _drop_those_who_left(self) -> None:
        now = self._clock()
        for ticket, place in list(self._line.items()):
            if place.waiter is None and now - place.left_at_s > KEEP_S:
                del self._line[ticket]
