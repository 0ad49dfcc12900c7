"""Asking the app's functions about the calls of a model's answer: each has a time limit, and the answer is never lost."""

import logging
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

logger = logging.getLogger("holdfast.worker")

FUNCTION_S = 10.0
"""Seconds for each of the app's functions about a call: validators, `prompt=`, `approval=` and the like."""
JUDGING_S = 60.0
"""Seconds for all functions about an answer, including waits for threads; the rest are not asked."""

_T = TypeVar("_T")


class Ask(Protocol):
    """Asks one of the app's functions about one call."""

    def __call__(self, what: str, function: Callable[[], _T], otherwise: _T) -> _T:
        """The function's answer; `otherwise` if there is none. `what` identifies the function within the call."""


def at_once(what: str, function: Callable[[], _T], otherwise: _T) -> _T:
    """Ask the function in this thread, without a time limit."""
    del what, otherwise
    return function()


def here(call: int) -> Ask:
    """Ask the functions about each call in this thread, without a time limit."""
    del call
    return at_once


class _GivenUp(BaseException):
    """Another thread goes on with the judgement."""


class Asking:
    """The functions of one judgement. If one hangs, another thread continues, without repeating functions already asked."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], Any] = {}

    def attempt(self, within_s: float = math.inf) -> "Attempt":
        """One more thread's attempt, within so many seconds."""
        return Attempt(self._known, time.monotonic() + within_s)

    def known(self, call: int) -> Ask:
        """Gives the known answers about a call, and asks no function."""

        def found(what: str, function: Callable[[], _T], otherwise: _T) -> _T:
            del function
            told: _T = self._known.get((call, what), otherwise)
            return told

        return found


class Attempt:
    """The questions of one thread, which its caller may give up."""

    def __init__(self, known: dict[tuple[int, str], Any], until_s: float) -> None:
        self._known = known
        self._until_s = until_s
        self._asked: tuple[tuple[int, str], Any, float] | None = None
        self._given_up = False

    def about(self, call: int) -> Ask:
        """Asks about one call of the answer."""
        return partial(self._ask, call)

    def left_s(self) -> float:
        """Seconds that the thread, and the function it asks now, may still take."""
        asked, now_s = self._asked, time.monotonic()
        return min(self._until_s, (now_s if asked is None else asked[2]) + FUNCTION_S) - now_s

    def give_up(self) -> None:
        """Record that the function asked now does not answer."""
        self._given_up, asked = True, self._asked
        if asked is not None:
            key, otherwise, _ = asked
            self._known.setdefault(key, otherwise)
            logger.warning("%s did not answer within %g s", key[1], FUNCTION_S)

    def _ask(self, call: int, what: str, function: Callable[[], _T], otherwise: _T) -> _T:
        key = call, what
        if key not in self._known:
            self._asked = key, otherwise, time.monotonic()
            try:
                told = function()
            except BaseException:  # also SystemExit, which would end the worker, KeyboardInterrupt and Suspend
                logger.warning("%s failed", what, exc_info=True)
                told = otherwise
            self._asked = None
            if self._given_up:
                raise _GivenUp
            self._known[key] = told
        found: _T = self._known[key]
        return found
