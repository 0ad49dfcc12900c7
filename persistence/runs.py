"""The records of work (runs and model calls): claims and outcomes; also progress and live events.

A record lasts from the append that makes the work outstanding to the append that settles it. A worker claims it just before
the work begins, and records the outcome right after. So an outcome outlives the actor that waits for it, and a conversation
needs no actor while workers have claimed all its work.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from holdfast.conversation import Event

from .database import Database

CLAIMS_MS = 600_000
"""How long (ms) an incarnation's number of claims is remembered."""
PROGRESS_MS = 24 * 3_600_000
"""How long (ms) a run's last progress is kept without another report."""


class RunStatus(StrEnum):
    """The status of a run or a model call."""

    RUNNABLE = "runnable"  # no worker has claimed it
    CLAIMED = "claimed"  # a worker's incarnation has claimed it, just before the work begins
    DONE = "done"  # its outcome is recorded, and not yet in the log


@dataclass(frozen=True, slots=True)
class Run:
    """The record of one run or model call; `outcome` is encoded.

    `incarnation` is the claim's id: the `worker`'s process, and the task in it. `until` is the time (ms UTC) by which the claim
    must have an outcome; 0: no bound.
    """

    status: RunStatus
    incarnation: str = ""
    worker: str = ""
    outcome: bytes = b""
    until: int = 0

    @property
    def process(self) -> str:
        """The id of the claiming process."""
        return self.incarnation.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Late:
    """An outcome (encoded `RunFinished`) that came after its call was settled; `at` in ms UTC."""

    at: int
    outcome: bytes


class Runs(Database, Protocol):
    """The verbs of a `Store` that concern work: claims, outcomes, progress and live events."""

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
        """Move a record from runnable to claimed; true also if this incarnation (the claim's id) has claimed it before.

        The claim is refused from `until` (ms UTC) on, and in another `State.grants_epoch` than `epoch`, whose grants let the
        work run (None: it needs none). It lasts for `bound_ms` without an outcome (0: no bound), and replaces the claim
        `instead_of`, whose process is gone. `follows` is the last log entry from which the work follows, with its place: if
        another entry is there, the log was set back, and the claim is undone.
        """

    async def finish(
        self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes, keeps_late: bool = True
    ) -> bool:
        """Move a record from claimed to done; false if the work is settled, or not claimed by this incarnation.

        A conversation without an owner then needs attention. An outcome of settled work is late: it changes nothing, and with
        `keeps_late` it is kept beside the log.
        """

    async def refuse(self, conversation_id: str, effect_id: str, *, incarnation: str, outcome: bytes) -> bool:
        """Move a record from runnable to done, with the outcome of work that must not begin; false if it is not runnable.

        True also if this incarnation has refused it before. A conversation without an owner then needs attention.
        """

    async def give_back(self, conversation_id: str, effect_id: str, *, incarnation: str) -> bool:
        """Have a conversation without an owner looked at now: a worker has dropped this work from its queue.

        Changes nothing if the work is settled, done, or claimed by another incarnation. False while the conversation has an
        owner: as the owner may be about to leave it to that worker, the worker must repeat the call later.
        """

    async def claims_stand(self, claims: Sequence[tuple[str, str, str]]) -> Sequence[bool]:
        """Which of these claims (conversation id, effect id, incarnation) hold without an outcome."""

    def outcomes(self) -> AsyncIterator[str]:
        """The ids of conversations without an owner as outcomes are recorded for them; some may be missed."""

    async def run(self, conversation_id: str, effect_id: str) -> Run | None:
        """The record of a run or model call; None once it is settled."""

    async def abandoned(self, conversation_id: str) -> Mapping[str, str]:
        """The runs that outlive their settled calls: the incarnations that claimed them, by effect id.

        A run is listed until its late outcome has come or its claim's bound has passed, since its worker may have died.
        """

    async def late(self, conversation_id: str) -> Mapping[str, Late]:
        """The late outcomes of the conversation's runs, by effect id."""

    async def attest(self, incarnation: str, lease_ms: int, *, claims: int = 1) -> None:
        """Note that a worker's incarnation lives: its `claims` hold for `lease_ms` by the store's clock."""

    async def claims_of(self, incarnation: str) -> int:
        """The number of claims that an incarnation last attested; 1 if that is unknown."""

    async def attested(self, incarnation: str) -> bool:
        """Whether the claims of that incarnation hold."""

    async def keep_progress(self, conversation_id: str, effect_id: str, payload: bytes) -> bool:
        """Keep a claimed run's last progress, until `PROGRESS_MS` after the last report; false if the run is not claimed."""

    async def progress(self, conversation_id: str) -> Mapping[str, bytes]:
        """The last progress of each run, settled ones included, by effect id."""

    async def publish(self, conversation_id: str, payload: bytes) -> bool:
        """Send a live event to the present listeners; true if there are any. It may be lost, and is not kept."""

    def listen(self, conversation_id: str) -> AsyncIterator[bytes]:
        """The live events published while the caller iterates."""
