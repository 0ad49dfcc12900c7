"""The bodies that the routes reply with."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast.client import MessageStatus, TurnStatus
from holdfast.conversation import Approval, Executor, FailureReason, Status, StopReason, SuspensionKind
from holdfast.conversation.ruled import Effect

from .problems import Problem

MS = "In integer milliseconds UTC."


class _Reply(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class PendingReply(_Reply):
    """A suspended call, as it is shown to whoever may decide it."""

    conversation_id: str
    agent: str
    tool_call_id: str
    suspension_id: str = Field(description="Binds a decision to this call, this phase and these arguments.")
    tool: str
    arguments: dict[str, Any]
    executor: Executor | None
    kind: SuspensionKind | None
    prompt: str | None
    response_schema: dict[str, Any] | bool | None
    created_at: int = Field(description=MS)
    expires_at: int | None = Field(description=MS)
    problem: str | None = Field(description="Why not all of the call can be read.")
    batch_id: str = Field(description="What has the same came with one answer of the model.")
    decisions: list[str] = Field(
        description="What may be decided: of an approval `approve`, `edit`, `deny`, `answer`, as its tool allows, and "
        "`cancel`; else kinds of decisions."
    )
    title: str | None = Field(description="What a review is about, in one line.")
    action: str | None = Field(description="What a review asks for, in one word.")
    report_md: str | None = Field(description="What a reviewer is to read, in markdown: a tool's words.")
    payload: Any = Field(description="What a review is about, as data.")
    rule: str = Field(description="The permission rule that asks for an approval; empty where none by itself does.")
    rule_reason: str = Field(description="Why the permission rules ask, in the rule's words.")


class RunningReply(_Reply):
    """A call that runs, or waits for a worker."""

    tool_call_id: str
    tool: str
    arguments: str = Field(description="Their JSON text, cut off after some hundred characters.")
    since: int = Field(description=MS)
    attempt: int
    executor: Executor
    progress: dict[str, Any] | None


class LateReply(_Reply):
    """A result that came after its call was settled, and changed nothing."""

    effect_id: str
    at: int = Field(description=MS)
    content: str | None = Field(description="The result, or the error, cut off after some hundred characters.")
    problem: str | None = Field(description="Why the result cannot be read.")


class StateReply(_Reply):
    """Where a conversation stands."""

    conversation_id: str
    status: Status
    turn_id: str | None
    reply: str | None
    error: str | None
    failed: FailureReason | None
    stopped: StopReason | None
    pending: list[PendingReply]
    running: list[RunningReply]
    seq: int = Field(description="The place of the last event; pass it as `after`.")
    agent: str
    app: str = Field(description="The import path of the agent's app.")
    created_at: int = Field(description=MS)
    updated_at: int = Field(description=MS)
    problem: str | None = Field(description="Why workers cannot run the app.")
    late: list[LateReply]


class RowReply(_Reply):
    """One conversation in a list."""

    conversation_id: str
    agent: str
    status: Status | None
    created_at: int = Field(description=MS)
    updated_at: int = Field(description=MS)
    pending: int
    problem: str | None


class RowsReply(_Reply):
    """A page of conversations, oldest first."""

    items: list[RowReply]
    next: str | None


class PendingPageReply(_Reply):
    """A page of pending calls, oldest first."""

    items: list[PendingReply]
    next: str | None


class ReceiptReply(_Reply):
    """The durable acknowledgement of a decision, message, start or end."""

    conversation_id: str
    seq: int = Field(description="The place in the log of what was recorded.")
    accepted_at: int = Field(description=MS)
    duplicate: bool = Field(description="Whether it was recorded before, under the same key.")


class MessageReceiptReply(ReceiptReply):
    """The receipt of a start or a message."""

    message_id: str


class DecisionReceiptReply(ReceiptReply):
    """The receipt of a decision."""

    decision_id: str


class SettledReply(ReceiptReply):
    """The receipt of one of several decisions."""

    suspension_id: str


class DecidedManyReply(_Reply):
    """The receipts of several decisions, in the order given."""

    conversation_id: str
    decision_id: str
    items: list[SettledReply]


class DecidedReply(_Reply):
    """What one of several decisions led to: its receipt, or the problem that says why it was not taken."""

    suspension_id: str
    decision_id: str = Field(description="Its own idempotency key, with which it can be repeated by itself.")
    status: int = Field(description="The HTTP status that it would have had by itself.")
    receipt: SettledReply | None = None
    problem: Problem | None = None


class DecidedEachReply(_Reply):
    """What each of several decisions led to, in the order given."""

    decision_id: str
    items: list[DecidedReply]


class EndReply(ReceiptReply):
    """The receipt of an end."""

    request_id: str


class CancelledReply(_Reply):
    """What a cancellation really cancelled."""

    conversation_id: str
    turn_id: str | None = Field(description="None where there was nothing to cancel.")
    calls: list[str]
    running: list[str] = Field(description="The cancelled calls whose bodies still went on when `wait_s` was over.")
    duplicate: bool
    request_id: str


class LiftedReply(_Reply):
    """Whether there was a quarantine to lift."""

    lifted: bool


class MessagesReply(_Reply):
    """A page of messages in the OpenAI chat format, without the system message."""

    items: list[dict[str, Any]]
    next: str | None


class MessageReply(_Reply):
    """What became of a message."""

    message_id: str
    status: MessageStatus
    turn_id: str | None
    reply: str | None
    error: str | None
    attempts: int
    accepted_at: int = Field(description=MS)


class UsageReply(_Reply):
    """What a turn used so far."""

    model_calls: int
    input_tokens: int | None
    output_tokens: int | None


class TurnReply(_Reply):
    """One turn."""

    turn_id: str
    message_id: str
    status: TurnStatus
    reply: str | None
    error: str | None
    failed: FailureReason | None
    stopped: StopReason | None
    attempts: int
    usage: UsageReply
    started_at: int = Field(description=MS)
    ended_at: int | None = Field(description=MS)
    duration_ms: int | None


class TurnsReply(_Reply):
    """A page of turns, oldest first."""

    items: list[TurnReply]
    next: str | None


class ToolReply(_Reply):
    """One tool of an agent."""

    name: str
    description: str
    parameters: Any = Field(description="The JSON Schema of its arguments.")
    executor: Executor
    approval: Approval
    response_schema: Any


class AgentReply(_Reply):
    """One agent."""

    name: str
    model: str
    tools: list[ToolReply]


class RulesCheckReply(_Reply):
    """What would become of a call under the permission rules that are published."""

    effect: Effect
    rule: str | None = Field(description="The rule that says so; null for a default, or the tool's own approval.")
    reason: str = Field(description="Why, in the rule's words.")
    approvers: tuple[str, ...] = Field(description="Who may approve; empty: whoever may decide.")
    by: Literal["rule", "default", "tool"] = Field(description="What decides.")
    hidden: bool = Field(description="Whether the model is not told of the tool.")


class PauseReply(_Reply):
    """A pause that stands."""

    agent: str | None = Field(description="None: the whole namespace.")
    reason: str
    by: str
    since: int = Field(description=MS)
    duplicate: bool


class PausesReply(_Reply):
    """The pauses that stand, that of the namespace first."""

    items: list[PauseReply]


class AgentsReply(_Reply):
    """The agents that can be started, and the pauses that stand."""

    items: list[AgentReply]
    paused: list[PauseReply]


class ResumedReply(_Reply):
    """The pause that was lifted, if one stood."""

    resumed: PauseReply | None


class HealthReply(_Reply):
    """The server is there."""

    status: Literal["ok"] = "ok"


class ReadyReply(_Reply):
    """Commands can be carried out."""

    status: Literal["ready"] = "ready"
