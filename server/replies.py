"""The bodies that the routes reply with."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast.client import MessageStatus, TurnStatus
from holdfast.conversation import Approval, Executor, FailureReason, Level, Proof, Status, StopReason, SuspensionKind
from holdfast.conversation.decisions import DecisionKind
from holdfast.conversation.ruled import Effect

from .problems import Problem

MS = "In integer milliseconds UTC."
SETTLED = "Whether the call is decided; false where others have to agree, too."
VOTES = "How many people have agreed, this decision included, where several have to; else 0."
NEEDED = "How many people have to agree; 0 where one is enough."


class _Reply(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class TargetReply(_Reply):
    """What a call touches."""

    kind: str = Field(description="`tool`, `path`, `domain`, `command` or a kind of the app's own.")
    value: str
    level: Level


class QuestionReply(_Reply):
    """One question of a call of `ask_user_questions`."""

    id: str = Field(description="The name of its answer.")
    text: str
    options: list[str] | None = Field(description="What there is to choose from; null for an answer in free words.")
    multiple: bool
    required: bool
    default: str | list[str] | None = Field(description="What counts where it is left out.")


class PrincipalReply(_Reply):
    """A person or a program."""

    id: str
    roles: list[str]
    proof: Proof = Field(description="How it was proven.")


class ApproversReply(_Reply):
    """Who may decide a call."""

    who: list[list[str]] = Field(
        description="Lists of roles (`role:finance`) and ids (`id:ana`): whoever decides is in each. None: anybody with a name."
    )
    minimum: int = Field(description="How many different people have to agree.")
    not_requester: bool = Field(description="Whether whoever sent the message may not decide.")
    stated: bool = Field(description="Whether a principal that nobody has proven counts, too.")
    each: bool = Field(description="Whether each call is decided by itself, so that no grant stands for anybody's word.")


class VoteReply(_Reply):
    """A person's yes to a call that several have to agree to."""

    by: PrincipalReply
    at: int = Field(description=MS)
    decision: DecisionKind
    value: Any = Field(description="What the decision says: an answer, or a review's verdict and notes.")
    reason: str


class CommentReply(_Reply):
    """A comment on a pending call, for the others who may decide it."""

    by: PrincipalReply | None = Field(description="Who wrote it; null where nobody said.")
    at: int = Field(description=MS)
    text: str


class CutReply(_Reply):
    """A field that is too long for a list."""

    size_bytes: int = Field(description="Of a value, that of its JSON text.")
    begins: str = Field(description="Its first characters.")


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
    targets: list[TargetReply] | None = Field(
        description="What the call touches, for grants; empty where that cannot be told, null where its tool does not say."
    )
    questions: list[QuestionReply] | None = Field(
        description="The questions of a call of `ask_user_questions`, which takes `{id: value}` as an answer; else null."
    )
    approvers: ApproversReply | None = Field(description="Who may decide it; null where whoever may decide at all may.")
    requester: PrincipalReply | None = Field(description="Who sent the message that led to it; null where nobody said.")
    votes: list[VoteReply] = Field(description="Who has agreed so far, where several have to.")
    assigned: str = Field(description="Who has taken it on; empty where nobody has.")
    comments: list[CommentReply] = Field(description="What those who may decide it wrote to each other.")
    cut: dict[str, CutReply] = Field(
        description="The fields that are too long for a list, by their names: they are empty or null there. "
        "`GET /v1/pending/{suspension_id}` shows the call whole."
    )


class RunningReply(_Reply):
    """A call that runs, or waits for a worker."""

    tool_call_id: str
    tool: str
    arguments: str = Field(description="Their JSON text, cut off after some hundred characters.")
    since: int = Field(description=MS)
    attempt: int
    executor: Executor
    progress: dict[str, Any] | None
    grants: list[str] = Field(description="The ids of the grants by which it runs without anybody's approval.")


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
    attended: bool = Field(description="Whether there is somebody to ask.")


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
    audit_head: str = Field(
        default="", description="The head of the audit chain with it; empty of an assignment and a comment."
    )


class MessageReceiptReply(ReceiptReply):
    """The receipt of a start or a message."""

    message_id: str


class DecisionReceiptReply(ReceiptReply):
    """The receipt of a decision."""

    decision_id: str
    settled: bool = Field(description=SETTLED)
    votes: int = Field(description=VOTES)
    needed: int = Field(description=NEEDED)


class SettledReply(ReceiptReply):
    """The receipt of one of several decisions."""

    settled: bool = Field(description=SETTLED)
    votes: int = Field(description=VOTES)
    needed: int = Field(description=NEEDED)

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
    audit_head: str = Field(default="", description="The head of the audit chain with the cancellation.")


class RevokedReply(ReceiptReply):
    """The receipt of a revocation."""

    request_id: str


class NotedReply(ReceiptReply):
    """The receipt of an assignment or a comment."""

    request_id: str


class GrantReply(_Reply):
    """A grant that stands: what runs without asking."""

    grant_id: str
    kind: str
    pattern: str
    level: Level
    ends_at: int | None = Field(description=MS + " None: with the conversation, or when it is revoked.")
    by: PrincipalReply | None = Field(description="Who gave it.")
    seq: int = Field(description="The place in the log of the decision that gave it.")


class GrantsReply(_Reply):
    """The grants that stand, in the order in which they were given."""

    items: list[GrantReply]


class GivenVoteReply(_Reply):
    """A vote that stands in a call that waits."""

    suspension_id: str
    tool_call_id: str
    by: str = Field(description="The id of whoever voted.")
    proof: Proof


class ConversationGivenReply(_Reply):
    """What people have given in one conversation beyond one decision."""

    conversation_id: str
    agent: str
    grants: list[GrantReply]
    votes: list[GivenVoteReply]
    problem: str | None = Field(description="Why the conversation cannot be read; null where it can.")


class GivenReply(_Reply):
    """A page of what stands, by conversation, the oldest first."""

    items: list[ConversationGivenReply]
    next: str | None = Field(description="The cursor of the page that follows; null at the end.")


class AuditEntryReply(_Reply):
    """A link of a conversation's audit chain. Digests are SHA-256 in 64 hexadecimal digits; what does not apply is empty."""

    conversation_id: str
    seq: int = Field(description="The place in the log.")
    at: int = Field(description=MS)
    kind: str = Field(description="The kind of the event; empty where the entry cannot be read.")
    tool_call_id: str
    suspension_id: str
    subject: str = Field(description="The turn, the grant, the rule, or the grants that settled a call, one a line.")
    shown_digest: str = Field(description="Of what whoever decided was shown.")
    settled_by: str
    decision: str
    body_digest: str = Field(description="Of what the message or decision said, with the salt that its event has.")
    reason_digest: str
    principal_id: str
    roles: list[str]
    proof: str
    request_id: str = Field(description="The idempotency key of the message, decision or request.")
    tool: str
    reason: str
    previous: str = Field(description="The head before this link.")
    head: str = Field(description="The head with this link; empty for what an older release wrote.")
    problem: str | None = Field(description="Why the link does not hold.")
    format: int = Field(description="The format of the link; in format 1, digests have no salt, and messages are no links.")


class AuditBreakReply(_Reply):
    """A place where the audit chain does not hold."""

    seq: int | None
    problem: str


class AuditReply(_Reply):
    """A part of a conversation's audit chain, and the verdict on the whole of it."""

    conversation_id: str
    head: str
    intact: bool
    broken_at: int | None = Field(description="The first place in the log where the chain does not hold.")
    breaks: list[AuditBreakReply]
    items: list[AuditEntryReply]
    next: int | None = Field(description="Pass it as `after` for the part that follows; null at the end.")


class LiftedReply(_Reply):
    """Whether there was a quarantine to lift."""

    lifted: bool


class MessagesReply(_Reply):
    """A page of messages in the OpenAI chat format, without the system message."""

    items: list[dict[str, Any]]
    next: str | None
    again: str | None = Field(
        description="The cursor after which the last message begins that is no result of a call: results take their places "
        "behind it as they come. Null where the page has none."
    )


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
    minimum: int = Field(default=1, description="How many people have to agree, as the rule says.")
    not_requester: bool = Field(default=False, description="Whether the rule leaves out who sent the message.")
    also: tuple[str, ...] = Field(
        default=(), description="Who may approve as further rules say, each in a line: whoever approves fulfils all of them."
    )


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
