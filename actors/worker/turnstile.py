"""A turnstile: it lets a limited number of callers in at once, in their order of arrival."""

import asyncio
from collections import Counter, deque

MOST_WAITING = 10_000


class NotYet(Exception):
    """Too many wait already."""


class Turnstile:
    """Lets `places` callers in at once, and fewer beside one with a lower limit of its own (`at_most`)."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._inside: Counter[int] = Counter()  # by their limits
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()

    def full(self, at_most: int = 0) -> bool:
        """Whether one more caller with this limit would have to wait."""
        return bool(self._line) or not self._has_room(at_most or self._places)

    async def enter(self, *, at_most: int = 0) -> None:
        """Enter when it is this caller's turn, or raise `NotYet`; `leave`, with the same limit, gives the place back."""
        limit = at_most or self._places
        if not self.full(limit):
            self._inside[limit] += 1
            return
        if len(self._line) >= MOST_WAITING:
            raise NotYet(f"{len(self._line)} wait for their turn here")
        place = limit, asyncio.get_running_loop().create_future()
        self._line.append(place)
        try:
            await place[1]
        except asyncio.CancelledError:
            if place in self._line:
                self._line.remove(place)
                self._let_in()
            else:
                self.leave(at_most=limit)
            raise

    def leave(self, *, at_most: int = 0) -> None:
        """Give a place back."""
        self._inside[at_most or self._places] -= 1
        self._let_in()

    def _let_in(self) -> None:
        self._inside = +self._inside
        while self._line and self._has_room(self._line[0][0]):
            limit, turn = self._line.popleft()
            self._inside[limit] += 1
            if not turn.done():
                turn.set_result(None)

    def _has_room(self, limit: int) -> bool:
        return self._inside.total() < min(self._places, limit, *self._inside)
