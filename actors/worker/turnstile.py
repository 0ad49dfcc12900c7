"""A turnstile: it lets a limited number of callers in at once, in their order of arrival."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from holdfast.backoff import now_s

KEEP_S = 60.0
"""Seconds for which the place of a caller that stopped waiting is kept."""
MOST_WAITING = 10_000
SOON_S = 0.01


class NotYet(Exception):
    """The caller's turn did not come in time; a caller that soon returns keeps its place in the line."""


@dataclass(slots=True, eq=False)
class _Place:
    at_most: int = 0
    waiter: asyncio.Future[None] | None = None
    left_at_s: float = 0.0


class Turnstile:
    """Lets `places` callers in at once, and fewer beside one with a lower limit of its own.

    A caller that stops waiting keeps its place if it soon returns with the same ticket. So one call need not wait for the whole
    time, and a caller that asks repeatedly is not overtaken forever.
    """

    def __init__(self, places: int, *, clock: Callable[[], float] | None = None) -> None:
        self._places = places
        self._inside: Counter[int] = Counter()  # by their limits
        self._clock = clock or now_s
        self._line: OrderedDict[Hashable, _Place] = OrderedDict()
        self._again: asyncio.TimerHandle | None = None

    def full(self, at_most: int = 0) -> bool:
        """Whether one more caller with this limit would have to wait."""
        waiting = any(place.waiter is not None for place in self._line.values())
        return waiting or not self._has_room(_Place(at_most or self._places))

    async def enter(self, ticket: Hashable, within_s: float, *, at_most: int = 0) -> None:
        """Enter when it is the ticket's turn, or raise `NotYet`; `leave`, with the same limit, gives the place back."""
        place = self._line.get(ticket) or _Place()
        if place.waiter is not None:
            raise NotYet("this ticket waits already")
        place.at_most = at_most or self._places
        if self._has_room(place) and not self._before(place):
            self._line.pop(ticket, None)
            self._inside[place.at_most] += 1
            return
        if ticket not in self._line:
            self._drop_those_who_left()
            if len(self._line) >= MOST_WAITING:
                raise NotYet(f"{len(self._line)} wait for their turn here")
            self._line[ticket] = place
        waiter = place.waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(within_s):
                await waiter
        except TimeoutError:
            if not (waiter.done() and not waiter.cancelled()):
                place.waiter, place.left_at_s = None, self._clock()
                self._let_in()
                raise NotYet(f"it has waited {within_s:g} s for its turn; {len(self._line)} are in the line") from None
        except asyncio.CancelledError:
            place.waiter, place.left_at_s = None, self._clock()
            if waiter.done() and not waiter.cancelled():
                self.leave(at_most=at_most)
            else:
                self._line.pop(ticket, None)
                self._let_in()
            raise

    def leave(self, *, at_most: int = 0) -> None:
        """Give a place back."""
        self._inside[at_most or self._places] -= 1
        self._let_in()

    def _let_in(self) -> None:
        self._inside = +self._inside
        if self._again is not None:
            self._again.cancel()
            self._again = None
        for ticket, place in list(self._line.items()):
            if place.waiter is None or place.waiter.done():
                if self._holds_up(place):  # ends after `KEEP_S`, even if no caller comes or goes
                    left_s = KEEP_S - (self._clock() - place.left_at_s)
                    self._again = asyncio.get_running_loop().call_later(left_s + SOON_S, self._let_in)
                    return
                continue
            if not self._has_room(place):
                return
            del self._line[ticket]
            self._inside[place.at_most] += 1
            place.waiter.set_result(None)

    def _has_room(self, place: _Place) -> bool:
        return self._inside.total() < min(self._places, place.at_most, *self._inside)

    def _before(self, place: _Place) -> bool:
        """Whether another caller comes before this place in the line."""
        for other in self._line.values():
            if other is place:
                return False
            if other.waiter is not None or self._holds_up(other):
                return True
        return False

    def _holds_up(self, place: _Place) -> bool:
        """Whether a caller that stopped waiting keeps its turn for `KEEP_S`: with a limit of its own it would starve."""
        lone = place.waiter is None and place.at_most < self._places
        return lone and self._clock() - place.left_at_s <= KEEP_S

    def _drop_those_who_left(self) -> None:
        now = self._clock()
        for ticket, place in list(self._line.items()):
            if place.waiter is None and now - place.left_at_s > KEEP_S:
                del self._line[ticket]
