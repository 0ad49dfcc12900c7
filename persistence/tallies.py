"""What an operator is shown in numbers: counts that processes say, and what the indexes count."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.conversation import Status, SuspensionKind

from .database import Database

SERIES = 10_000
"""How many counts a store keeps by name; further names are not counted."""
AGENTS = 50
"""How many agents are counted by name; the others are counted together."""
AGES_S = (300, 3600, 86_400)
"""The ages, in seconds, of which it is said how many pending calls have reached them."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many suspensions are open, and when the oldest began (ms UTC; None: not known)."""

    count: int
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """The numbers of a store at the moment `now` (ms UTC).

    Attributes:
        now: The store's clock.
        counts: The counts by name, as all processes have said them.
        conversations: Conversations by status.
        pending: Open suspensions by agent and kind; those of agents that no published app has stand under the agent ''.
        older: Open suspensions by kind and age (seconds, of `AGES_S`) that have reached that age.
        actors: Actors that live.
        offers: Actors on offer.
        hosted: Conversations that actors host.
        paused: Conversations that were released because of a pause.
        unhosted: Conversations by status that no actor hosts.
    """

    now: int
    counts: Mapping[str, int] = field(default_factory=dict)
    conversations: Mapping[Status, int] = field(default_factory=dict)
    pending: Mapping[tuple[str, SuspensionKind], Waiting] = field(default_factory=dict)
    older: Mapping[tuple[SuspensionKind, int], int] = field(default_factory=dict)
    actors: int = 0
    offers: int = 0
    hosted: int = 0
    paused: int = 0
    unhosted: Mapping[Status, int] = field(default_factory=dict)


class Tallies(Database, Protocol):
    """The verbs of a `Store` that concern numbers over everything."""

    async def count(self, counts: Mapping[str, int]) -> None:
        """Add these numbers, none below 0, to the counts of these names; a count only grows.

        Where the names are as many as a store keeps, new ones are left out. Those that differ only behind their last `|`, as
        the names of a histogram do, are kept together or left out together.

        After `StoreUnavailable` the numbers may have been added: who says them again may count them twice.
        """

    async def survey(self) -> Survey:
        """The numbers of conversations, open suspensions and actors now. It reads no log, and costs what the indexes cost."""
