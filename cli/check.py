"""One thing that `holdfast doctor` looks at, and how it is."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a check came out."""

    OK = "ok"  # as it should be
    WARN = "warn"  # it works, and something should be known about it
    FAIL = "fail"  # it does not work, or loses what was acknowledged


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, how it is, and what to do; `unreachable` if something did not answer."""

    name: str
    outcome: Outcome
    detail: str
    fix: str | None = None
    unreachable: bool = False


def ok(name: str, detail: str) -> Check:
    """It is as it should be."""
    return Check(name, Outcome.OK, detail)


def warn(name: str, detail: str, fix: str) -> Check:
    """It works, and something should be known about it."""
    return Check(name, Outcome.WARN, detail, fix)


def fail(name: str, detail: str, fix: str, *, unreachable: bool = False) -> Check:
    """It does not work."""
    return Check(name, Outcome.FAIL, detail, fix, unreachable)
