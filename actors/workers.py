"""What a hosted conversation needs of the workers, so that its logic runs against an interface."""

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from holdfast.conversation import ModelFailed, ModelReplied, RunFinished

from .work_requests import ModelRequest, RunRequest

if TYPE_CHECKING:
    from .published import Standing

ModelOutcome: TypeAlias = ModelReplied | ModelFailed


class NoWorker(Exception):
    """No worker could do it now; ask again after a moment. The message says why."""


class WorkerLost(NoWorker):
    """The process that called the model is gone; `process` names it."""

    def __init__(self, message: str, process: str) -> None:
        super().__init__(message, process)
        self.process = process

    def __str__(self) -> str:
        return str(self.args[0])


class WorkPaused(Exception):
    """New work waits, and this is new; it can begin once the pause is over. The message says whose work waits."""


class NoOutcome(StrEnum):
    """Why a worker has no outcome of a run."""

    NOT_MINE = "not_mine"  # the run was not runnable: somebody else has it, or it is settled
    GONE = "gone"  # the incarnation that claimed it is no more
    FORGOTTEN = "forgotten"  # that incarnation lives, and does not have it: its record is older than what became of it


class Workers(Protocol):
    """The workers that run effects."""

    async def standing(self, app: str, agent: str) -> "Standing | None":
        """What a turn of an app's agent begins with, as it was published; None where the app is not known.

        Raises:
            NoWorker: What stands there was not written by whoever publishes in this cluster.
        """
        ...

    async def call_model(self, app: str, code: str, request: ModelRequest) -> ModelOutcome:
        """Call the model.

        Raises:
            WorkPaused: It was not called, since new work waits.
            WorkerLost: Its process died of something meanwhile, perhaps of this.
            NoWorker: The worker died or cannot import the app.
        """
        ...

    async def run_tool(self, app: str, code: str, request: RunRequest) -> RunFinished | NoOutcome:
        """Claim the run, run its body, record its outcome and return it.

        Raises:
            WorkPaused: It was not claimed, since new work waits.
            NoWorker: The worker died or cannot import the app; the run's record says how far it came.
        """
        ...

    async def join(self, worker: str, incarnation: str, conversation_id: str, effect_id: str) -> RunFinished | NoOutcome:
        """Wait for a run that a worker's incarnation has claimed.

        Raises:
            NoWorker: The worker does not answer now.
        """
        ...

    def drop(self, conversation_id: str, effect_id: str) -> None:
        """Tell the workers that nobody waits for an effect any more."""
        ...
