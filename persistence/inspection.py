"""What an operator asks of a store: what is wrong, since when, and how much there is. Nothing here changes anything."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class BrokenApp:
    """An app that workers cannot run, why, and since when (ms UTC; None: an older release noted it)."""

    app: str
    problem: str
    since: int | None


@dataclass(frozen=True, slots=True)
class Silent:
    """An actor that counts among the living, when it was last heard of (ms UTC), and the conversation that it hosts."""

    actor: str
    since: int
    conversation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Overdue:
    """How many conversations should have been looked at long ago, and the longest overdue of them: each with its moment."""

    count: int
    longest: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True, slots=True)
class Census:
    """How many there are of each, by the indexes.

    `begun` counts the conversations that were started at or after the moment that was asked for; `fullest` is the number of
    conversations in the fullest of the buckets.
    """

    conversations: int
    begun: int
    fullest: int
    pending: int
    lost: int
    quarantined: int


class Inspection(Protocol):
    """The verbs of a `Store` by which problems and sizes are seen."""

    async def broken_apps(self) -> Sequence[BrokenApp]:
        """The apps that workers cannot run, the longest first; see `Store.put_problem`."""
        ...

    async def silent(self, quiet_ms: int) -> Sequence[Silent]:
        """The actors that count among the living and have been quiet for so long, the longest unheard of first."""
        ...

    async def overdue(self, late_ms: int, *, limit: int) -> Overdue:
        """The conversations whose moment of attention passed so long ago, at most `limit` of them by name.

        What cannot be taken up is postponed, and is in trouble instead; see `Store.troubles`.
        """
        ...

    async def census(self, *, since: int) -> Census:
        """How many there are, and how many conversations were started since a moment (ms UTC)."""
        ...
