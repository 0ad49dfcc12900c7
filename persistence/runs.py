"""The runs of a conversation's calls: their claims, their outcomes, their progress and their live events."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from .database import Database

PROGRESS_MS = 24 * 3_600_000
"""For how long (ms) the last progress of a run is kept when no other report follows."""


class RunStatus(StrEnum):
    """Where a run stands."""

    RUNNABLE = "runnable"  # no worker has taken the run
    CLAIMED = "claimed"  # a worker's incarnation has taken the run, just before the body
    DONE = "done"  # the run's outcome is recorded, and not yet in the log


@dataclass(frozen=True, slots=True)
class Run:
    """The record of one run; `worker` is the actor's name, `outcome` an encoded `RunFinished`."""

    status: RunStatus
    incarnation: str = ""
    worker: str = ""
    outcome: bytes = b""


@dataclass(frozen=True, slots=True)
class Late:
    """A late outcome (an encoded `RunFinished`), which came after its call was settled; `at` in ms UTC."""

    at: int
    outcome: bytes


class Runs(Database, Protocol):
    """The verbs of a `Store` that concern runs: claims, outcomes, progress and live events."""

    async def claim(
        self, conversation_id: str, effect_id: str, *, incarnation: str, worker: str, until: int | None = None
    ) -> bool:
        """Move a run from runnable to claimed; true also if this incarnation has claimed the run before.

        After `until`, in ms UTC by the store's clock, the run is not claimed any more: the claim may not be allowed by then.
        """
        ...

    async def finish(self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes) -> bool:
        """Move a run from claimed to done; false if the run is settled, or not claimed by this incarnation.

        The outcome of a settled run is late: it changes nothing, and is kept beside the log.
        """
        ...

    async def run(self, conversation_id: str, effect_id: str) -> Run | None:
        """The record of a run, None once the run is settled."""
        ...

    async def late(self, conversation_id: str) -> Mapping[str, Late]:
        """The late outcomes of the conversation's runs, by effect id."""
        ...

    async def attest(self, incarnation: str, lease_ms: int) -> None:
        """Note that a worker's incarnation lives, and that its claims stand for `lease_ms` by the store's clock."""
        ...

    async def attested(self, incarnation: str) -> bool:
        """Whether the claims of that incarnation stand."""
        ...

    async def keep_progress(self, conversation_id: str, effect_id: str, payload: bytes) -> bool:
        """Keep the last progress of a claimed run for later readers; false if the run is not claimed.

        The progress of a conversation's runs is removed `PROGRESS_MS` after the last report.
        """
        ...

    async def progress(self, conversation_id: str) -> Mapping[str, bytes]:
        """The last progress of each run, by effect id; also of runs that were settled since."""
        ...

    async def publish(self, conversation_id: str, payload: bytes) -> None:
        """Send a live event to the listeners of the moment; it may be lost, and is not kept."""
        ...

    def listen(self, conversation_id: str) -> AsyncIterator[bytes]:
        """The live events that are published while the caller iterates."""
        ...
