"""One check of `holdfast doctor`, and its outcome."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from holdfast.errors import HoldfastError
from holdfast.redaction import Redaction

_NAMED = ("HOLDFAST_REDIS_URL",)


class Outcome(StrEnum):
    """The outcome of a check."""

    OK = "ok"  # the checked part is as it should be
    WARN = "warn"  # the checked part works, with a weakness that the operator should know
    FAIL = "fail"  # the checked part does not work, may lose acknowledged data, lets anybody in, or waits for a person


@dataclass(frozen=True, slots=True)
class Check:
    """The name of the checked part, the outcome, and what to do; `unreachable` if a server did not answer."""

    name: str
    status: Outcome
    said: str
    fix: str | None = None
    unreachable: bool = False


def ok(name: str, said: str) -> Check:
    """A check whose outcome is `OK`."""
    return Check(name, Outcome.OK, said)


def warn(name: str, said: str, fix: str) -> Check:
    """A check whose outcome is `WARN`."""
    return Check(name, Outcome.WARN, said, fix)


def fail(name: str, said: str, fix: str, *, unreachable: bool = False) -> Check:
    """A check whose outcome is `FAIL`."""
    return Check(name, Outcome.FAIL, said, fix, unreachable)


async def bounded(name: str, looking: Awaitable[Sequence[Check]], *, within_s: float) -> list[Check]:
    """The checks that a look makes; a look that fails or takes too long is itself a failed check, and hides no other."""
    try:
        async with asyncio.timeout(within_s):
            return list(await looking)
    except TimeoutError:
        said = f"it could not be looked at within {within_s:g} s"
        return [fail(name, said, "find out what hangs there, and run the command again", unreachable=True)]
    except Exception as error:  # noqa: BLE001 - the other checks are wanted in any case
        return [failed(name, error)]


def judged(name: str, judging: Callable[[], Check]) -> Check:
    """The check that a judgement makes; a judgement that fails is itself a failed check, and hides no other."""
    try:
        return judging()
    except Exception as error:  # noqa: BLE001 - as for `bounded`
        return failed(name, error)


def failed(name: str, error: Exception) -> Check:
    """The check of a part that could not be looked at."""
    said = str(error) if isinstance(error, HoldfastError) else Redaction.of_process(os.environ, _NAMED).said(error, 300)
    return fail(name, f"it could not be looked at: {said}", "correct the cause, and run the command again")
