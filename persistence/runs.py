"""The records of work: the claims and outcomes of runs and model calls; the progress and live events of both.

A record stands from the append that makes the work outstanding to the append that settles it. A worker claims it just before it
begins, and records the outcome right after. So an outcome outlives the actor that waits for it, and while all of a
conversation's work is claimed, the conversation needs no actor.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from holdfast.conversation import Event

from .database import Database

COMPANY_MS = 600_000
"""For how long (ms) it is known how many claims an incarnation had."""
PROGRESS_MS = 24 * 3_600_000
"""For how long (ms) the last progress of a run is kept when no other report follows."""


class RunStatus(StrEnum):
    """Where a run or a model call stands."""

    RUNNABLE = "runnable"  # no worker has taken the run
    CLAIMED = "claimed"  # a worker's incarnation has taken the run, just before the body
    DONE = "done"  # the run's outcome is recorded, and not yet in the log


@dataclass(frozen=True, slots=True)
class Run:
    """The record of one run or model call.

    Attributes:
        status: Where the work stands.
        incarnation: The id of the claim: the worker's process, and the task in it.
        worker: The name of the worker that made the claim.
        outcome: The encoded outcome.
        until: The moment (ms UTC) by which the claim must have an outcome; 0 where the claim names none.
    """

    status: RunStatus
    incarnation: str = ""
    worker: str = ""
    outcome: bytes = b""
    until: int = 0

    @property
    def process(self) -> str:
        """The id of the process that made the claim."""
        return self.incarnation.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Late:
    """A late outcome (an encoded `RunFinished`), which came after its call was settled; `at` in ms UTC."""

    at: int
    outcome: bytes


class Runs(Database, Protocol):
    """The verbs of a `Store` that concern runs: claims, outcomes, progress and live events."""

    async def claim(
        self,
        conversation_id: str,
        effect_id: str,
        *,
        incarnation: str,
        worker: str,
        until: int | None = None,
        bound_ms: int = 0,
        instead_of: str = "",
        epoch: int | None = None,
        follows: tuple[int, Event] | None = None,
    ) -> bool:
        """Move a record from runnable to claimed; true also if this incarnation has claimed it before.

        Args:
            conversation_id: The conversation.
            effect_id: The run or model call.
            incarnation: The id of the claim.
            worker: The name of the worker.
            until: The moment (ms UTC) from which on nothing is claimed any more; the claim may not be allowed from then on.
            bound_ms: How long the claim may stand without an outcome; 0 for a claim without a bound.
            instead_of: A claim whose process is gone, which gives way to this one.
            epoch: The conversation's `State.grants_epoch` in which grants let the work run: in another nothing is claimed. None
                for work that needs no grant.
            follows: The last log entry that the work follows from, with its place. If the log holds another entry there, it was
                set back, and nothing stays claimed.
        """

    async def finish(
        self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes, keeps_late: bool = True
    ) -> bool:
        """Move a record from claimed to done; false if the work is settled, or not claimed by this incarnation.

        A conversation that has no owner needs attention then. An outcome of settled work is late: it changes nothing, and with
        `keeps_late` it is kept beside the log.
        """

    async def refuse(self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes) -> bool:
        """Move a record from runnable to done, with the outcome of work that is not to begin; false if it is not runnable.

        True also if this incarnation has refused it before. A conversation that has no owner needs attention then.
        """

    async def give_back(self, conversation_id: str, effect_id: str, *, incarnation: str) -> bool:
        """Have a conversation without an owner looked at now: a worker had this work in its line, and has it no more.

        Nothing changes where the work is settled, done, or claimed by another incarnation. False while the conversation has an
        owner, which may be about to leave it to that worker: the worker says it again later.
        """

    async def claims_stand(self, claims: Sequence[tuple[str, str, str]]) -> Sequence[bool]:
        """Which of these claims stand without an outcome; each is a conversation's id, an effect id and an incarnation."""

    def outcomes(self) -> AsyncIterator[str]:
        """The ids of conversations without an owner for which an outcome is recorded meanwhile; some may be missed."""

    async def run(self, conversation_id: str, effect_id: str) -> Run | None:
        """The record of a run or a model call, None once that is settled."""

    async def abandoned(self, conversation_id: str) -> Mapping[str, str]:
        """The runs that go on though their calls are settled, with the incarnations that claimed them, by effect id.

        One is named until its outcome has come, late, or the bound of its claim has passed: its worker may have died meanwhile.
        """

    async def late(self, conversation_id: str) -> Mapping[str, Late]:
        """The late outcomes of the conversation's runs, by effect id."""

    async def attest(self, incarnation: str, lease_ms: int, *, company: int = 1) -> None:
        """Note that a worker's incarnation lives: its claims stand for `lease_ms` by the store's clock, and are so many."""

    async def company(self, incarnation: str) -> int:
        """How many claims an incarnation had when it was last attested; 1 where that is not known (any more)."""

    async def attested(self, incarnation: str) -> bool:
        """Whether the claims of that incarnation stand."""

    async def keep_progress(self, conversation_id: str, effect_id: str, payload: bytes) -> bool:
        """Keep the last progress of a claimed run for later readers; false if the run is not claimed.

        The progress of a conversation's runs is removed `PROGRESS_MS` after the last report.
        """

    async def progress(self, conversation_id: str) -> Mapping[str, bytes]:
        """The last progress of each run, by effect id; also of runs that were settled since."""

    async def publish(self, conversation_id: str, payload: bytes) -> bool:
        """Send a live event to the listeners of the moment; true if there are any. It may be lost, and is not kept."""

    def listen(self, conversation_id: str) -> AsyncIterator[bytes]:
        """The live events that are published while the caller iterates."""
