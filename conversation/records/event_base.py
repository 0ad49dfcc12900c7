"""The base classes of events, and the reasons of turns that end without the model's whole answer."""

from enum import StrEnum
from typing import ClassVar

from holdfast.conversation.record import Record
from holdfast.conversation.terms.principal import Principal

from .calls import CallDetails


class StopReason(StrEnum):
    """Why a completed turn ended before the model had said all: its answer was cut off, or the agent's `Stop` was reached."""

    LENGTH = "length"  # the answer reached the model's token limit: its text is cut off
    CONTENT_FILTER = "content_filter"  # the provider's filter cut the text off
    ROUNDS = "rounds"  # Stop.rounds: the model asked for calls once more
    TOKENS = "tokens"
    COST = "cost"  # Stop.cost_usd
    ERRORS = "errors"  # Stop.errors: so many results in a row failed
    TOOL = "tool"  # Stop.tool: a call of this tool has its result
    TIMEOUT = "timeout"  # Stop.timeout_s
    CONTENT = "content"  # Stop.content: the text of an answer that asked for calls matches
    LOOP = "loop"  # Stop.loop: the model asked again for a call with the same arguments
    WHEN = "when"  # Stop.when: a function of the app said so


class FailureReason(StrEnum):
    """Why a turn failed."""

    MODEL_ERROR = "model_error"  # the provider's error, after all retries
    MODEL_TIMEOUT = "model_timeout"  # no answer within Limits.model_timeout_s
    MODEL_UNAVAILABLE = "model_unavailable"  # the breakers of all the agent's models are open; nothing was sent
    LENGTH = "length"  # the answer was cut off at the token limit before any text, or inside its calls, as were two before it
    CONTENT_FILTER = "content_filter"  # the provider's filter left nothing to continue with
    MAX_MODEL_CALLS = "max_model_calls"  # Limits.max_model_calls is reached
    MAX_CALLS = "max_calls"  # one answer asked for more calls than Limits.max_calls
    REPLY_BYTES = "reply_bytes"  # one answer was larger than Limits.reply_bytes
    INVALID_REPLY = "invalid_reply"  # the reply does not fit the agent's reply=, nor do those that were asked for instead
    UNUSABLE = "unusable"  # the answer cannot be recorded
    UNSUPPORTED_PART = "unsupported_part"  # the model cannot be sent an image or file of this turn; nothing was sent
    NOT_OVERRIDABLE = "not_overridable"  # the agent in force does not allow what the turn's message overrides; nothing was sent
    CONTEXT_OVERFLOW = "context_overflow"  # more has to be sent than Context.budget or, as its provider says, the model takes
    BUDGET_EXCEEDED = "budget_exceeded"  # a Budget of the agent is used up; the model was not asked
    NO_AGENT = "no_agent"  # the store does not have the conversation's app or agent


class SummaryFailure(StrEnum):
    """Why a summary does not stand for the messages of a conversation."""

    NO_ANSWER = "no_answer"  # the model's error, after all retries, or no answer in time
    OVERFLOW = "overflow"  # the messages to summarise have more tokens than the model takes
    TOO_LONG = "too_long"  # it has more tokens than Compact.max_tokens, or more bytes than Limits.reply_bytes
    REFUSED = "refused"  # the provider's filter cut it off
    EMPTY = "empty"  # the answer has no text
    CALLS = "calls"  # the model asked for tools instead
    SAVES_TOO_LITTLE = "saves_too_little"  # the next request would hardly be smaller
    UNUSABLE = "unusable"  # it cannot be recorded
    NOT_ASKED = "not_asked"  # no model was, though somebody has: too little to summarise, no agent, or a Budget is used up


class Reached(Record):
    """The bound of the agent's `Stop` that a turn has reached, and the words for it."""

    reason: StopReason
    detail: str


class EventBase(Record, defer_build=True):
    """The base of every event.

    Attributes:
        at: When it was decided, in integer milliseconds UTC by the store's clock.
    """

    kind: str
    at: int


class ChainLink(EventBase):
    """An event that can be a link of the audit chain.

    Attributes:
        salt: The salt of its digests in the audit chain; empty if an older release wrote it.
        head: The head of the audit chain after this event; empty if it is no link, as in older releases.
    """

    LAST: ClassVar[str] = "salt head"
    salt: str = ""
    head: str = ""


class CallEvent(CallDetails, EventBase):
    """A call runs, is held or suspended.

    Attributes:
        batch_id: The model call whose answer asked for the call.
    """

    batch_id: str = ""


class OnSuspension(EventBase):
    """An event about an open suspension.

    Attributes:
        tool_call_id: The call.
        suspension_id: The suspension.
    """

    tool_call_id: str
    suspension_id: str


class OfTurn(EventBase):
    """An event about a turn.

    Attributes:
        turn_id: The turn: `t1`, `t2` and so on.
    """

    turn_id: str


class Used(OfTurn):
    """What an answer of a model used.

    Attributes:
        model: The model that answered, if it is not the agent's first one.
        input_tokens: How many tokens the request had, if the provider said so.
        output_tokens: How many tokens the answer had, if the provider said so.
        cached_tokens: How many of the request's tokens the provider read from its cache, as far as it said so.
        reasoning_tokens: How many of the answer's tokens are thinking, as far as the provider said so.
        cost_usd: What the answer cost in US dollars, by litellm's prices; None if the price or the tokens are unknown.
        duration_ms: How long the model call took, with retries and fallbacks, in milliseconds.
        first_token_ms: The milliseconds from the answered request to the first piece of its answer.
    """

    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    duration_ms: int | None = None
    first_token_ms: int | None = None


MEASURED = tuple(name for name in Used.__annotations__ if name != "model")
"""The fields of an answer that say what it used."""


class Note(OnSuspension):
    """A note for the other approvers of a suspended call; the call still waits.

    Attributes:
        request_id: The idempotency key of the request.
        principal: Who made it, and how that was proven; None if unknown.
        noted: The `seq` of earlier votes, assignments and comments on the suspension.
    """

    LAST: ClassVar[str] = "request_id principal noted"
    request_id: str
    principal: Principal | None = None
    noted: tuple[int, ...] = ()
