"""Tool calls: where each stands, and what is shown to whoever may resolve it."""

from enum import StrEnum
from typing import Any

from pydantic import Field

from .decisions import DecisionKind
from .record import Record
from .spec import Approval, Executor, OnLost


class CallStatus(StrEnum):
    """Where a call of the current turn stands."""

    RUNNING = "running"  # its run is outstanding
    AWAITING = "awaiting"  # it awaits someone outside
    RESOLVED = "resolved"  # it has a result
    ERRORED = "errored"  # it has an error result


class SuspensionKind(StrEnum):
    """What a suspended call waits for."""

    APPROVAL = "approval"  # a yes or no before it runs
    ELICITATION = "elicitation"  # a person's answer, which is the result
    CLIENT_EXEC = "client_exec"  # a client's own execution
    LOST = "lost"  # a person's word on a run that was lost: again, or what came of it


ACCEPTED: dict[SuspensionKind, tuple[DecisionKind, ...]] = {
    SuspensionKind.APPROVAL: (DecisionKind.APPROVE, DecisionKind.DENY),
    SuspensionKind.ELICITATION: (DecisionKind.ANSWER, DecisionKind.DENY),
    SuspensionKind.CLIENT_EXEC: (DecisionKind.ANSWER, DecisionKind.FAIL),
    SuspensionKind.LOST: (DecisionKind.REDISPATCH, DecisionKind.ANSWER, DecisionKind.FAIL),
}
"""Which decisions each kind of suspension takes."""


class Suspension(Record):
    """One wait of a call for someone outside. Times in integer milliseconds UTC; `seq` is its event's."""

    suspension_id: str
    kind: SuspensionKind
    seq: int
    created_at: int
    expires_at: int


class Call(Record):
    """One call of the current turn. Its arguments stay in the log, at `arguments_at`."""

    tool_call_id: str
    tool: str
    executor: Executor = Executor.SERVER
    approval: Approval = Approval.AUTO
    status: CallStatus
    arguments_at: int
    attempt: int = 0
    suspensions: int = 0
    suspension: Suspension | None = None
    on_lost: OnLost = OnLost.REDISPATCH

    @property
    def effect_id(self) -> str:
        """The id of the run that is outstanding while the call is running."""
        return run_effect_id(self.tool_call_id, self.attempt)

    @property
    def open(self) -> bool:
        """Whether the turn still waits for this call."""
        return self.status in (CallStatus.RUNNING, CallStatus.AWAITING)


def run_effect_id(tool_call_id: str, attempt: int) -> str:
    """The id of one run of a call."""
    return f"{tool_call_id}#{attempt}"


class PendingView(Record):
    """A suspended call as shown to whoever may resolve it, as data (see `holdfast.client.PendingCall`).

    `problem` says why not all of it can be read (written by a newer Holdfast, corrupt, nested too deeply, gone); what is not
    known then is empty or None.
    """

    conversation_id: str
    agent: str = ""
    tool_call_id: str = ""
    suspension_id: str
    tool: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)
    executor: Executor | None = None
    kind: SuspensionKind | None = None
    prompt: str | None = None
    response_schema: dict[str, Any] | bool | None = Field(default=None)
    created_at: int
    expires_at: int | None = None
    problem: str | None = None
