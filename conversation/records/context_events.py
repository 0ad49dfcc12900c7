"""The events of what is sent of a conversation: its first messages are, or could not be, summarised, or were too much."""

from typing import Literal

from holdfast.conversation.terms.budget import Per
from holdfast.conversation.terms.principal import Principal

from .event_base import ChainLink, OfTurn, SummaryFailure, Used


class CompactionRequested(ChainLink):
    """Somebody asked that the conversation be summarised whatever the threshold; the next model call is asked for that.

    Attributes:
        request_id: The request's idempotency key.
        principal: Who asked for it, and how that was proven; None if unknown.
    """

    kind: Literal["compaction_requested"] = "compaction_requested"
    request_id: str
    principal: Principal | None = None


class CompactionStarted(OfTurn):
    """The conversation is summarised while no turn goes on; `compacted` or `summary_failed` ends that.

    Attributes:
        turn_id: What stands in place of a turn's id: `c` and the `seq` of the request.
        requested_at: The `seq` of the request.
        spec_digest: The stored agent spec by which it is summarised; empty if there is none.
        code: The digest of the app's code; empty if there is none.
        traceparent: The trace context of its span.
        budgets: What its agent's budgets are for, toward which the summary counts.
    """

    kind: Literal["compaction_started"] = "compaction_started"
    requested_at: int
    spec_digest: str
    code: str
    traceparent: str | None = None
    budgets: tuple[Per, ...] = ()


class Compacted(Used):
    """A summary stands for the first messages of the conversation from here on, wherever its messages are sent to a model.

    Attributes:
        effect_id: The model call that summarised.
        summary: The summary, in the model's words.
        boundary: The place in the log of the last entry before the first message that is sent as it is.
        messages: How many messages it stands for: all of the conversation up to the boundary.
        asked_at: The `seq` of the message that asked for the turn in which the boundary lies, which is sent too; 0 if it lies
            between turns.
        spec_digest: The stored agent spec that the turn runs with.
        tokens_before: About how many tokens the next request's messages would have had.
        tokens_after: About how many they have with the summary.
    """

    kind: Literal["compacted"] = "compacted"
    effect_id: str
    summary: str
    boundary: int
    messages: int
    asked_at: int = 0
    spec_digest: str = ""
    tokens_before: int = 0
    tokens_after: int = 0


class ContextOverflowed(OfTurn):
    """A provider refused a request for its length; the model is called once more with less, once in a turn.

    Attributes:
        effect_id: The model call.
        error: The provider's words, without secrets.
    """

    kind: Literal["context_overflowed"] = "context_overflowed"
    effect_id: str
    error: str = ""


class SummaryFailed(Used):
    """The first messages of the conversation could not be summarised; the oldest ones are left out instead.

    Attributes:
        effect_id: The model call that was to summarise.
        reason: The kind of the failure.
        error: What went wrong, in words and without secrets.
    """

    kind: Literal["summary_failed"] = "summary_failed"
    effect_id: str
    reason: SummaryFailure
    error: str = ""
