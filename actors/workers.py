"""The interface of the workers that an activation runs against."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from holdfast.conversation import AgentSpec, ModelFailed, ModelReplied, RunFinished

from .work_requests import ModelRequest, RunRequest

ModelOutcome: TypeAlias = ModelReplied | ModelFailed


@dataclass(frozen=True, slots=True)
class Standing:
    """The code and the spec that a turn begins with; `spec` is None where the app has no such agent."""

    code: str
    spec: AgentSpec | None


class NoWorker(Exception):
    """No worker could carry the effect out now; ask again after a moment. The message says why."""


class WorkerLost(NoWorker):
    """The process that called the model is gone; `process` names it."""

    def __init__(self, message: str, process: str) -> None:
        super().__init__(message, process)
        self.process = process

    def __str__(self) -> str:
        return str(self.args[0])


class WorkPaused(Exception):
    """The work is new, and new work is paused; it can begin once the pause is over. The message says whose work waits."""


class NoOutcome(StrEnum):
    """Why a worker has no outcome of a run."""

    NOT_MINE = "not_mine"  # the run was not runnable: another incarnation has claimed it, or it is settled
    GONE = "gone"  # the incarnation that claimed the run is gone
    FORGOTTEN = "forgotten"  # the incarnation that claimed the run lives, but has ended it since: the run's record is older


class Workers(Protocol):
    """The workers that run effects."""

    async def standing(self, app: str, agent: str) -> Standing | None:
        """The code and spec that a turn of an app's agent begins with, as published; None where the app is not known.

        Raises:
            NoWorker: The record of the app was not written by a publisher of this cluster.
            StoreError: The store does not answer.
            ClusterUnavailable: This process is in no cluster (any more).
        """
        ...

    async def call_model(self, app: str, code: str, request: ModelRequest) -> ModelOutcome:
        """Call the model; its answer, or why there is none.

        Raises:
            WorkPaused: The model was not called, since new work waits.
            WorkerLost: The process that called the model died meanwhile, perhaps of this call.
            NoWorker: The worker died or cannot import the app.
            StoreError: The store does not answer.
            ClusterError: This process is in no cluster, or Holdfast was stopped on it.
        """
        ...

    async def run_tool(self, app: str, code: str, request: RunRequest) -> RunFinished | NoOutcome:
        """Claim the run, run its body, record its outcome and return it.

        Raises:
            WorkPaused: The run was not claimed, since new work waits.
            NoWorker: The worker died or cannot import the app; the run's record says how far the run came.
            StoreError: The store does not answer.
            ClusterError: This process is in no cluster, or Holdfast was stopped on it.
        """
        ...

    async def join(self, worker: str, incarnation: str, conversation_id: str, effect_id: str) -> RunFinished | NoOutcome:
        """Wait for a run that a worker's incarnation has claimed; its outcome, or why there is none.

        Raises:
            NoWorker: The worker does not answer now.
            StoreError: The store does not answer.
            ClusterUnavailable: This process is in no cluster (any more).
        """
        ...

    def drop(self, conversation_id: str, effect_id: str) -> None:
        """Tell the workers that nobody waits for an effect any more."""
        ...
