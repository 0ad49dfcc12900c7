"""The server's replies that are more than one result of a client: receipts with their keys, and several results at once."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast.conversation import Cancelled, ClaimReceipt, Grant, Interrupted, Receipt
from holdfast.conversation.log.auditing import AuditEntry
from holdfast.conversation.log.chain import AuditBreak
from holdfast.persistence import Pause

from .agents import AgentRow
from .given import Given
from .results import Result
from .turns import QueuedMessage

_Unsaid = Field(exclude=True)


class Problem(BaseModel):
    """Why a request failed (RFC 9457). The fields of the typed error come besides."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="A name of the problem that never changes: `urn:holdfast:error:` and the code.")
    code: str = Field(description="The problem's short name, such as `stale_call`.")
    title: str = Field(description="The name of the typed error.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What went wrong, and what to do.")


class _Recorded(Receipt):
    settled: Annotated[bool, _Unsaid] = True
    votes: Annotated[int, _Unsaid] = 0
    needed: Annotated[int, _Unsaid] = 0


class MessageReceiptReply(_Recorded):
    """The receipt of a start or a message."""

    message_id: str


class EndReply(_Recorded):
    """The receipt of an end."""

    request_id: str


class RevokedReply(_Recorded):
    """The receipt of a revocation."""

    request_id: str


class NotedReply(_Recorded):
    """The receipt of an assignment or a comment."""

    request_id: str


class ClaimReply(ClaimReceipt):
    """The receipt of a claim."""

    settled: Annotated[bool, _Unsaid] = True
    votes: Annotated[int, _Unsaid] = 0
    needed: Annotated[int, _Unsaid] = 0
    request_id: str


class HeardReply(Result):
    """Whether anybody listens to the conversation's live events."""

    heard: bool


class CancelledReply(Cancelled):
    """What a cancellation really cancelled."""

    request_id: str


class InterruptedReply(Interrupted):
    """What an interruption cancelled and superseded."""

    request_id: str


class DecisionReceiptReply(Receipt):
    """The receipt of a decision."""

    decision_id: str


class SettledReply(Receipt):
    """The receipt of one of several decisions."""

    suspension_id: str


class DecidedManyReply(Result):
    """The receipts of several decisions, in the order given."""

    conversation_id: str
    decision_id: str
    items: list[SettledReply]


class DecidedReply(Result):
    """What one of several decisions led to: its receipt, or the problem that says why it was not taken."""

    suspension_id: str
    decision_id: str = Field(description="Its own idempotency key, with which it can be repeated by itself.")
    status: int = Field(description="The HTTP status that it would have had by itself.")
    receipt: SettledReply | None = None
    problem: Problem | None = None


class DecidedEachReply(Result):
    """What each of several decisions led to, in the order given."""

    decision_id: str
    items: list[DecidedReply]


class GrantReply(Grant):
    """A grant that stands: what runs without asking."""

    approvers: Annotated[str, _Unsaid] = ""


class GrantsReply(Result):
    """The grants that stand, in the order in which they were given."""

    items: list[GrantReply]


class QueueReply(Result):
    """The messages that no turn has taken up yet: those that join the present turn, the queue, and those for later."""

    items: list[QueuedMessage]


class ConversationGivenReply(Given):
    """The grants and votes that people have given in one conversation and that still stand."""

    grants: list[GrantReply]  # type: ignore[assignment]


class AuditReply(Result):
    """A part of a conversation's audit chain, and the verdict on the whole chain."""

    conversation_id: str
    head: str
    intact: bool
    broken_at: int | None = Field(description="The first place in the log where the chain does not hold.")
    breaks: list[AuditBreak]
    items: list[AuditEntry]
    next: int | None = Field(description="Pass it as `after` for the part that follows; None at the end.")


class LiftedReply(Result):
    """Whether there was a quarantine to lift."""

    lifted: bool


class FoundReply(Result):
    """Whether it was in the outbox."""

    found: bool


class PausesReply(Result):
    """The pauses that stand, that of the namespace first."""

    items: list[Pause]


class AgentsReply(Result):
    """The agents that can be started, and the pauses that stand."""

    items: list[AgentRow]
    paused: list[Pause]


class UnpausedReply(Result):
    """The pause that was lifted, if one stood."""

    lifted: Pause | None


class HealthReply(Result):
    """The server is there."""

    status: Literal["ok"] = "ok"


class ReadyReply(Result):
    """Commands can be carried out."""

    status: Literal["ready"] = "ready"
