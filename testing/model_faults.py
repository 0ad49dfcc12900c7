"""The faults that a model server is told to have, in their order."""

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Failure:
    """An error in place of an answer."""

    status: int
    headers: dict[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class Break:
    """An answer that stops after some chunks; `clean` ends the response normally, else the connection is closed."""

    after_chunks: int
    clean: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """The time that an answer takes."""

    first_token_s: float = 0.0
    between_chunks_s: float = 0.0


class Schedule(Generic[_T]):
    """Faults in their order, each for a number of requests, or, with None, until another is set."""

    def __init__(self) -> None:
        self._entries: deque[tuple[_T, int | None]] = deque()

    def put(self, fault: _T, times: int | None) -> None:
        """Add a fault, `times` at least 1 (else `ValueError`); an endless fault gives way to it."""
        if times is not None and times < 1:
            raise ValueError(f"times must be at least 1, or None for until cleared: {times}")
        if self._entries and self._entries[-1][1] is None:
            self._entries.pop()
        self._entries.append((fault, times))

    def draw(self) -> _T | None:
        """The fault of the next request; None if it has none."""
        if not self._entries:
            return None
        fault, times = self._entries.popleft()
        if times is None or times > 1:
            self._entries.appendleft((fault, None if times is None else times - 1))
        return fault

    def clear(self) -> None:
        """Forget all faults."""
        self._entries.clear()
