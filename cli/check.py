"""One thing that `holdfast doctor` looks at, and how it is."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from holdfast.errors import HoldfastError
from holdfast.redaction import Redaction

_NAMED = ("HOLDFAST_REDIS_URL",)


class Outcome(StrEnum):
    """How a check came out."""

    OK = "ok"  # as it should be
    WARN = "warn"  # it works, and something should be known about it
    FAIL = "fail"  # it does not work, loses what was acknowledged, lets anybody in, or waits for somebody to see to it


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, how it is, and what to do; `unreachable` if something did not answer."""

    name: str
    status: Outcome
    said: str
    fix: str | None = None
    unreachable: bool = False


def ok(name: str, said: str) -> Check:
    """It is as it should be."""
    return Check(name, Outcome.OK, said)


def warn(name: str, said: str, fix: str) -> Check:
    """It works, and something should be known about it."""
    return Check(name, Outcome.WARN, said, fix)


def fail(name: str, said: str, fix: str, *, unreachable: bool = False) -> Check:
    """It does not work."""
    return Check(name, Outcome.FAIL, said, fix, unreachable)


async def bounded(name: str, looking: Awaitable[Sequence[Check]], *, within_s: float) -> list[Check]:
    """What a look finds out; one that fails or takes too long is itself a check, and hides no other."""
    try:
        async with asyncio.timeout(within_s):
            return list(await looking)
    except TimeoutError:
        said = f"it could not be looked at within {within_s:g} s"
        return [fail(name, said, "see to whatever hangs there, and look again", unreachable=True)]
    except Exception as error:  # noqa: BLE001 - whatever it is, the other checks are wanted all the same
        return [failed(name, error)]


def judged(name: str, judging: Callable[[], Iterable[Check]]) -> list[Check]:
    """What is judged of what was seen; a judgement that fails hides no other."""
    try:
        return list(judging())
    except Exception as error:  # noqa: BLE001 - as above
        return [failed(name, error)]


def failed(name: str, error: Exception) -> Check:
    """What could not be looked at."""
    said = str(error) if isinstance(error, HoldfastError) else Redaction.of_process(os.environ, _NAMED).said(error, 300)
    return fail(name, f"it could not be looked at: {said}", "correct what this names, and look again")
