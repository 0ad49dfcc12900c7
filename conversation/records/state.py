"""The state of one conversation, which `evolve` folds and snapshots hold.

Bodies (messages, arguments, results) are left out and referred to by the `seq` of their events, so the size of a state does not
depend on the length of the conversation.
"""

from enum import StrEnum
from typing import Literal

from holdfast.conversation.ids import turn_id
from holdfast.conversation.record import Record
from holdfast.conversation.terms.grants import Grant

from .calls import Call
from .round import NO_CALLS, Round


class Status(StrEnum):
    """The status of a conversation."""

    ABSENT = "absent"  # it was never started
    IDLE = "idle"  # it waits for the user's next message
    GENERATING = "generating"  # a turn is about to begin, or a model call is outstanding
    EXECUTING_TOOLS = "executing_tools"  # calls run, none awaits
    AWAITING_INPUT = "awaiting_input"  # at least one call awaits somebody, whatever else runs
    FAILED = "failed"  # the last turn failed; `send` starts a new one
    ENDED = "ended"  # for good
    QUARANTINED = "quarantined"  # set beside the log, not by the machine: the conversation's work killed process after process


RESTING = frozenset({Status.IDLE, Status.AWAITING_INPUT, Status.FAILED, Status.ENDED})
"""The statuses in which a conversation rests: `wait` returns."""


class QueuedTrace(Record):
    """The trace context of a queued message; `seq` is the message's."""

    seq: int
    traceparent: str


class Turn(Record):
    """The current turn; `answered_at` is the `seq` of the model's last message.

    `traceparent` is the trace context of its first span, `latest` that of the last span in the log, if that is another.
    """

    turn_id: str
    message_seq: int
    spec_digest: str
    code: str
    max_model_calls: int
    model_calls: int = 0
    answered_at: int = 0
    calls: Round = NO_CALLS
    traceparent: str | None = None
    latest: str | None = None

    @property
    def model_effect_id(self) -> str:
        """The id of the next model call."""
        return f"{self.turn_id}.m{self.model_calls + 1}"

    @property
    def batch_id(self) -> str:
        """The batch id of the calls of the last answer: the id of its model call."""
        return f"{self.turn_id}.m{self.model_calls}"

    def call(self, tool_call_id: str) -> Call | None:
        """The call of that id; None if this turn's last answer did not ask for it."""
        return self.calls.of(tool_call_id)


class LastTurn(Record):
    """How the last turn ended; `seq` is that of the terminal event, `reply_seq` that of the model's final answer."""

    turn_id: str
    outcome: Literal["completed", "failed", "cancelled"]
    seq: int
    reply_seq: int | None = None


class State(Record):
    """One conversation, without its bodies. Times in ms UTC; `queue` holds the `seq` of each queued message.

    `queued_traces` are the trace contexts of queued messages that have one. `grants_epoch` counts revoked grants: a run that a
    grant allowed is claimed only in the epoch of its scheduling. `audit_head` is the head of the audit chain, empty before its
    first link. `attended` says whether there is somebody to ask.
    """

    conversation_id: str
    seq: int = 0
    created_at: int = 0
    updated_at: int = 0
    agent: str = ""
    app: str = ""
    turns: int = 0
    queue: tuple[int, ...] = ()
    queued_traces: tuple[QueuedTrace, ...] = ()
    turn: Turn | None = None
    last: LastTurn | None = None
    ended: bool = False
    grants: tuple[Grant, ...] = ()
    grants_epoch: int = 0
    audit_head: str = ""
    attended: bool = True

    @property
    def status(self) -> Status:
        """The conversation's status, derived from everything else."""
        if self.seq == 0:
            return Status.ABSENT
        if self.ended:
            return Status.ENDED
        if self.turn is None:
            if self.queue:
                return Status.GENERATING
            return Status.FAILED if self.last is not None and self.last.outcome == "failed" else Status.IDLE
        if self.turn.calls.any_awaiting:
            return Status.AWAITING_INPUT
        return Status.EXECUTING_TOOLS if self.turn.calls.any_running else Status.GENERATING

    @property
    def present_turn_id(self) -> str | None:
        """The id of the turn that is going on, or is about to begin."""
        if self.turn is not None:
            return self.turn.turn_id
        return turn_id(self.turns + 1) if self.queue else None

    @property
    def calls(self) -> Round:
        """The calls of the current turn's last answer."""
        return self.turn.calls if self.turn is not None else NO_CALLS

    @property
    def resting(self) -> bool:
        """Whether the conversation rests (`RESTING`): nothing goes on, or a call awaits a decision, whatever else runs."""
        return self.status in RESTING
