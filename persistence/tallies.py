"""An operator's numbers: counts that processes report, and counts from the indexes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.conversation import Status, SuspensionKind

from .database import Database

SERIES = 10_000
"""The most counts that a store keeps by name; further names are not counted."""
AGENTS = 50
"""The most agents counted by name; the others are counted together."""
AGES_S = (300, 3600, 86_400)
"""The ages, in seconds, by which pending calls are counted."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The number of open suspensions, and when the oldest began (ms UTC; None: unknown)."""

    count: int
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """The numbers of a store at the time `now` (ms UTC) of its clock.

    `counts` are added up over all processes, by name. `pending` counts open suspensions by agent and kind, agents of no
    published app under ''; `older` those by kind and minimum age (seconds, of `AGES_S`). `actors` live, `offers` are up for
    adoption. `conversations` counts by status, `hosted` those with an actor, `unhosted` those without, by status, `paused`
    those released because of a pause.
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
    """The verbs of a `Store` that concern its numbers as a whole."""

    async def count(self, counts: Mapping[str, int]) -> None:
        """Add these numbers (at least 0) to the counts of these names; a count only grows.

        Once the store keeps `SERIES` names, new ones are left out; names that differ only after their last `|`, like those of a
        histogram, are kept or left out together. After `StoreUnavailable` a repetition may count twice.
        """

    async def survey(self) -> Survey:
        """The numbers of conversations, open suspensions and actors now. Reads only indexes, no log."""
