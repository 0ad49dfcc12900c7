"""The interface of the workers that an activation runs against."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from holdfast.conversation import AgentSpec, ModelFailed, ModelReplied, RunFinished, RunRuled, RunSuspended

from .work_requests import ModelRequest, RunRequest

ModelOutcome: TypeAlias = ModelReplied | ModelFailed
RunOutcome: TypeAlias = RunFinished | RunSuspended | RunRuled
GRACE_S = 30.0
"""Seconds beyond the bound of a run or model call for which its claim stands, and its worker may still answer."""


@dataclass(frozen=True, slots=True)
class PublishedAgent:
    """The code and the spec that a turn begins with; `spec` is None where the app has no such agent."""

    code: str
    spec: AgentSpec | None


class NoWorker(Exception):
    """No worker could carry the effect out now; ask again after a moment. The message says why."""


class NoApp(NoWorker):
    """No worker can carry the effect out before somebody acts: the app is not as it was published, or cannot be opened."""


class WorkPaused(Exception):
    """The work is new, and new work is paused; it can begin once the pause is over. The message says whose work waits."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """The work goes on: this incarnation of a worker has claimed it, and says so before there is an outcome.

    Where it has not `begun`, it waits for its turn at that worker, and is claimed when that comes.
    """

    incarnation: str
    worker: str
    begun: bool = True


class NoOutcome(StrEnum):
    """Why a worker has no outcome of a run or model call."""

    FULL = "full"  # the work would have to wait for its turn, and may not: another worker may have room
    NOT_MINE = "not_mine"  # the work was not runnable: another incarnation has claimed it, or it is settled
    GONE = "gone"  # the incarnation that claimed the work is gone
    FORGOTTEN = "forgotten"  # the incarnation that claimed the work lives, but has ended it since: the record is older


RunAnswer: TypeAlias = RunOutcome | Claimed | NoOutcome
ModelAnswer: TypeAlias = ModelOutcome | Claimed | NoOutcome


class Workers(Protocol):
    """The workers that run effects."""

    async def published(self, app: str, agent: str) -> PublishedAgent | None:
        """The code and spec that a turn of an app's agent begins with, as published; None where the app is not known."""

    async def call_model(self, app: str, code: str, request: ModelRequest) -> ModelAnswer:
        """Claim the model call, call the model, record the outcome and return it; `Claimed` where that takes longer.

        Raises:
            WorkPaused: The call was not claimed, since new work waits.
            NoWorker: The worker died or cannot import the app; the call's record says how far it came.
        """

    async def run_tool(self, app: str, code: str, request: RunRequest) -> RunAnswer:
        """Claim the run, run its body, record its outcome and return it; `Claimed` where that takes longer.

        Raises:
            WorkPaused: The run was not claimed, since new work waits.
            NoWorker: The worker died or cannot import the app; the run's record says how far the run came.
        """

    async def join(
        self, worker: str, incarnation: str, conversation_id: str, effect_id: str, *, briefly: bool = False
    ) -> RunAnswer | ModelAnswer:
        """Wait for what a worker's incarnation has claimed; its outcome, or why there is none; `briefly`, also `Claimed`."""

    def drop(self, worker: str, incarnation: str) -> None:
        """Tell a worker that nobody waits any more for what this incarnation of it has claimed."""
