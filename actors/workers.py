"""The interface of the workers that an activation runs against."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from holdfast.conversation import AgentSpec, ModelFailed, ModelReplied, RunFinished, RunRuled, RunSuspended

from .work_requests import ModelRequest, RunRequest

ModelOutcome: TypeAlias = ModelReplied | ModelFailed
RunOutcome: TypeAlias = RunFinished | RunSuspended | RunRuled
GRACE_S = 30.0
"""Seconds beyond the time limit of a run or model call for which its claim stands and its worker may still answer."""


@dataclass(frozen=True, slots=True)
class PublishedAgent:
    """The code and spec that a turn begins with; `spec` is None if the app has no such agent."""

    code: str
    spec: AgentSpec | None


class NoWorker(Exception):
    """No worker can carry the effect out now; ask again after a moment. The message says why."""


class NoApp(NoWorker):
    """No worker can carry the effect out until the app is repaired: it is not as published, or cannot be opened."""


class WorkPaused(Exception):
    """The work is new, and new work is paused until the pause is over. The message says whose work waits."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """The work goes on: this incarnation of a worker has claimed it, and there is no outcome yet.

    If it has not `begun`, it is queued at that worker, and claimed when its turn comes.
    """

    incarnation: str
    worker: str
    begun: bool = True


class NoOutcome(StrEnum):
    """Why a worker has no outcome of a run or model call."""

    FULL = "full"  # the work may not queue here; another worker may have room
    NOT_MINE = "not_mine"  # the work was not runnable: another incarnation has claimed it, or it is settled
    GONE = "gone"  # the incarnation that claimed the work is gone
    FORGOTTEN = "forgotten"  # the incarnation that claimed the work lives, but has ended it since: the record is older


RunAnswer: TypeAlias = RunOutcome | Claimed | NoOutcome
ModelAnswer: TypeAlias = ModelOutcome | Claimed | NoOutcome


class Workers(Protocol):
    """The workers that run effects."""

    async def published(self, app: str, agent: str) -> PublishedAgent | None:
        """The published code and spec that a turn of an app's agent begins with; None if the app is unknown."""

    async def call_model(self, app: str, code: str, request: ModelRequest) -> ModelAnswer:
        """Claim the model call, call the model, record the outcome and return it; `Claimed` if that takes longer.

        Raises:
            WorkPaused: The call was not claimed, since new work waits.
            NoWorker: The worker died or cannot import the app; the call's record says how far it came.
        """

    async def run_tool(self, app: str, code: str, request: RunRequest) -> RunAnswer:
        """As `call_model`, for a run and its body."""

    async def join(
        self, worker: str, incarnation: str, conversation_id: str, effect_id: str, *, briefly: bool = False
    ) -> RunAnswer | ModelAnswer:
        """Wait for what a worker's incarnation has claimed; its outcome, or why there is none; `briefly`, also `Claimed`."""

    def drop(self, worker: str, incarnation: str) -> None:
        """Tell a worker that the claim of this incarnation is not awaited any more."""
