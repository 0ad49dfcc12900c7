"""The runs of a conversation's calls: who carries them out, what came of them, and what they tell meanwhile."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from .database import Database

PROGRESS_MS = 24 * 3_600_000
"""For how long the last progress of a run is kept when no other report follows."""


class RunStatus(StrEnum):
    """Where a run stands."""

    RUNNABLE = "runnable"  # no worker has taken it
    CLAIMED = "claimed"  # a worker's incarnation has taken it, just before the body
    DONE = "done"  # its outcome is recorded, and not yet in the log


@dataclass(frozen=True, slots=True)
class Run:
    """The record of one run; `worker` is the actor's name, `outcome` an encoded `RunFinished`."""

    status: RunStatus
    incarnation: str = ""
    worker: str = ""
    outcome: bytes = b""


@dataclass(frozen=True, slots=True)
class Late:
    """An outcome (an encoded `RunFinished`) that came when nobody waited for it any more; `at` in ms UTC."""

    at: int
    outcome: bytes


class Runs(Database, Protocol):
    """The verbs of a `Store` by which runs are claimed, finished and followed."""

    async def claim(
        self, conversation_id: str, effect_id: str, *, incarnation: str, worker: str, until: int | None = None
    ) -> bool:
        """Move a run from runnable to claimed; true also if this incarnation has claimed it before.

        After `until`, in ms UTC by the store's clock, it is not claimed any more: what allowed it may not hold by then.
        """
        ...

    async def finish(self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes) -> bool:
        """Move a run from claimed to done; false if it is not this incarnation's, or settled.

        An outcome of what is settled is late: it changes nothing, and is kept beside the log.
        """
        ...

    async def run(self, conversation_id: str, effect_id: str) -> Run | None:
        """The record of a run, None once it is settled."""
        ...

    async def late(self, conversation_id: str) -> Mapping[str, Late]:
        """The outcomes that came late, by effect id."""
        ...

    async def attest(self, incarnation: str, lease_ms: int) -> None:
        """Say that a worker's incarnation lives, and that its claims stand for so long, by the store's clock."""
        ...

    async def attested(self, incarnation: str) -> bool:
        """Whether that incarnation's claims stand."""
        ...

    async def keep_progress(self, conversation_id: str, effect_id: str, payload: bytes) -> bool:
        """Keep the last progress of a claimed run for those who look later; false if the run is not claimed.

        What is kept of a conversation's runs goes `PROGRESS_MS` after the last report.
        """
        ...

    async def progress(self, conversation_id: str) -> Mapping[str, bytes]:
        """The last progress that is kept, by effect id; also of runs that are settled since."""
        ...

    async def publish(self, conversation_id: str, payload: bytes) -> None:
        """Tell live listeners; lossy, nothing is kept."""
        ...

    def listen(self, conversation_id: str) -> AsyncIterator[bytes]:
        """What is published while iterating."""
        ...
