"""Tool calls: the status of each, its suspension, and the view of it that people and clients are shown."""

from enum import StrEnum
from typing import Any

from pydantic import Field

from .decisions import DecisionKind
from .record import Record
from .spec import Approval, Executor, OnLost


class CallStatus(StrEnum):
    """Where a call of the current turn stands."""

    RUNNING = "running"  # the call's run is outstanding
    AWAITING = "awaiting"  # the call waits for a decision from outside
    RESOLVED = "resolved"  # the call has a result
    ERRORED = "errored"  # the call has an error result


class SuspensionKind(StrEnum):
    """What a suspended call waits for."""

    APPROVAL = "approval"  # a person's yes or no before the call runs
    ELICITATION = "elicitation"  # a person's answer, which is the call's result
    CLIENT_EXEC = "client_exec"  # the result of the client's own execution
    LOST = "lost"  # a person's word on a lost run: run it again, or take this result or error


ACCEPTED: dict[SuspensionKind, tuple[DecisionKind, ...]] = {
    SuspensionKind.APPROVAL: (DecisionKind.APPROVE, DecisionKind.DENY),
    SuspensionKind.ELICITATION: (DecisionKind.ANSWER, DecisionKind.DENY),
    SuspensionKind.CLIENT_EXEC: (DecisionKind.ANSWER, DecisionKind.FAIL),
    SuspensionKind.LOST: (DecisionKind.REDISPATCH, DecisionKind.ANSWER, DecisionKind.FAIL),
}
"""The kinds of decision that each kind of suspension takes."""


class Suspension(Record):
    """One wait of a call for a decision from outside. Times in integer ms UTC; `seq` is that of its `CallSuspended`.

    `traceparent` is the trace context of the turn's span in which it began; None where there was none.
    """

    suspension_id: str
    kind: SuspensionKind
    seq: int
    created_at: int
    expires_at: int
    traceparent: str | None = None


class Call(Record):
    """One call of the current turn. Its arguments stay in the log, in the event whose `seq` is `arguments_at`."""

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
    """A suspended call as people and clients are shown it, as data (see `holdfast.client.PendingCall`). Times in ms UTC.

    `problem` says why a part of the call cannot be read (written by a newer Holdfast, corrupt, nested too deeply, gone); fields
    that are not known then are empty or None.
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
