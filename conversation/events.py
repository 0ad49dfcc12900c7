"""What the machine decided, in the past tense. The log holds these and nothing else.

Every event has `at`, the moment it was decided, in integer milliseconds UTC by the store's clock. Its `seq` is its place in
the log (from 1) and is not repeated inside it. The record versions are the codec's (`holdfast.persistence`).
"""

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from .calls import SuspensionKind
from .decisions import DecisionKind
from .jsontext import JsonText
from .record import Record
from .spec import Approval, Executor, OnLost


class SettledBy(StrEnum):
    """What settled a suspension or call."""

    APPROVE = "approve"
    DENY = "deny"
    ANSWER = "answer"
    FAIL = "fail"
    REDISPATCH = "redispatch"
    EXPIRY = "expiry"
    CANCELLATION = "cancellation"
    RUN = "run"  # the callback's outcome
    LOSS = "loss"  # the run's worker was gone without an outcome
    REFUSAL = "refusal"  # the call could not run at all: unknown tool, bad arguments


class StopReason(StrEnum):
    """Why a turn was completed although the model had more to say."""

    LENGTH = "length"  # the answer reached the model's token limit: its text is cut off
    CONTENT_FILTER = "content_filter"  # the provider's filter cut the text off


class FailureReason(StrEnum):
    """Why a turn failed."""

    MODEL_ERROR = "model_error"  # the provider's error, after all retries
    MODEL_TIMEOUT = "model_timeout"  # no answer within Limits.model_timeout_s
    LENGTH = "length"  # the answer was cut off at the token limit inside a tool call, or before it said anything
    CONTENT_FILTER = "content_filter"  # the provider's filter left nothing to go on with
    MAX_MODEL_CALLS = "max_model_calls"  # Limits.max_model_calls is reached
    MAX_CALLS = "max_calls"  # one answer asked for more calls than Limits.max_calls
    REPLY_BYTES = "reply_bytes"  # one answer was larger than Limits.reply_bytes
    UNUSABLE = "unusable"  # the answer came, and cannot be recorded
    NO_AGENT = "no_agent"  # the app or agent of the conversation is not known to the store (any more)


class ConversationStarted(Record):
    """The first event of every log."""

    kind: Literal["conversation_started"] = "conversation_started"
    at: int
    conversation_id: str
    agent: str
    app: str
    context: JsonText = "null"


class MessageAccepted(Record):
    """A user's message is in; its turn begins when those before it are done."""

    kind: Literal["message_accepted"] = "message_accepted"
    at: int
    message_id: str
    digest: str
    text: str


class TurnStarted(Record):
    """The turn of the message at `message_seq` began, with this spec and this code."""

    kind: Literal["turn_started"] = "turn_started"
    at: int
    turn_id: str
    message_seq: int
    spec_digest: str
    code: str
    max_model_calls: int


class RequestedCall(Record):
    """A tool call as the model asked for it; `original_id` where its own id had to be rewritten."""

    tool_call_id: str
    name: str
    arguments: str
    original_id: str | None = None


class ModelAnswered(Record):
    """The model's message: text, calls, or both.

    `reasoning` is what the model showed of its thinking, apart from the reply. `provider` is a JSON object of what only its
    provider reads: calls that it executed with their results, signed or sealed thinking. It is sent back as it came.
    """

    kind: Literal["model_answered"] = "model_answered"
    at: int
    effect_id: str
    content: str | None = None
    calls: tuple[RequestedCall, ...] = ()
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning: str | None = None
    provider: JsonText | None = None


class RunScheduled(Record):
    """A server call's run is outstanding from here on."""

    kind: Literal["run_scheduled"] = "run_scheduled"
    at: int
    tool_call_id: str
    tool: str
    attempt: int
    arguments_at: int
    approval: Approval = Approval.AUTO
    on_lost: OnLost = OnLost.REDISPATCH


class CallSuspended(Record):
    """A call awaits someone outside."""

    kind: Literal["call_suspended"] = "call_suspended"
    at: int
    tool_call_id: str
    tool: str
    executor: Executor
    approval: Approval
    suspension_id: str
    suspension_kind: SuspensionKind
    arguments_at: int
    expires_at: int
    prompt: str | None = None
    response_schema: JsonText | None = None
    on_lost: OnLost = OnLost.REDISPATCH


class SuspensionSettled(Record):
    """A suspension ended: by a decision, its deadline or a cancellation."""

    kind: Literal["suspension_settled"] = "suspension_settled"
    at: int
    tool_call_id: str
    suspension_id: str
    by: SettledBy
    body: JsonText | None = None
    decision_id: str | None = None
    digest: str = ""
    decision: DecisionKind | None = None


class CallResolved(Record):
    """A call has its result: the envelope that the model reads."""

    kind: Literal["call_resolved"] = "call_resolved"
    at: int
    tool_call_id: str
    ok: bool
    content: JsonText
    by: SettledBy
    untrusted: bool = False


class TurnCompleted(Record):
    """The turn ended with the model's final answer, at `reply_seq`; `stopped` says what cut its text off, if anything did."""

    kind: Literal["turn_completed"] = "turn_completed"
    at: int
    turn_id: str
    reply_seq: int
    stopped: StopReason | None = None


class TurnFailed(Record):
    """The turn ended with an error; the conversation can go on."""

    kind: Literal["turn_failed"] = "turn_failed"
    at: int
    turn_id: str
    error: str
    reason: FailureReason | None = None


class TurnCancelled(Record):
    """The turn was cancelled, and with it these calls."""

    kind: Literal["turn_cancelled"] = "turn_cancelled"
    at: int
    turn_id: str
    calls: tuple[str, ...] = ()
    request_id: str | None = None


class NothingCancelled(Record):
    """A cancellation found no turn; noted so that its repetition cancels none that came later."""

    kind: Literal["nothing_cancelled"] = "nothing_cancelled"
    at: int
    request_id: str


class ConversationEnded(Record):
    """Nothing follows."""

    kind: Literal["conversation_ended"] = "conversation_ended"
    at: int
    request_id: str | None = None


Event: TypeAlias = Annotated[
    ConversationStarted
    | MessageAccepted
    | TurnStarted
    | ModelAnswered
    | RunScheduled
    | CallSuspended
    | SuspensionSettled
    | CallResolved
    | TurnCompleted
    | TurnFailed
    | TurnCancelled
    | NothingCancelled
    | ConversationEnded,
    Field(discriminator="kind"),
]
EVENTS: tuple[type[Record], ...] = (
    ConversationStarted,
    MessageAccepted,
    TurnStarted,
    ModelAnswered,
    RunScheduled,
    CallSuspended,
    SuspensionSettled,
    CallResolved,
    TurnCompleted,
    TurnFailed,
    TurnCancelled,
    NothingCancelled,
    ConversationEnded,
)
