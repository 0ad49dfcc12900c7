"""The machine's decisions, in the past tense. The log holds these and nothing else.

An event's `seq` is its place in the log (from 1) and is not repeated inside it. Texts of JSON are kept as they came: see
`jsontext`. A trace context is a W3C `traceparent`, None if nothing is traced. `holdfast.persistence` has the record versions.
"""

from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

from pydantic import Field

from holdfast.conversation.record import Record
from holdfast.conversation.terms.budget import Per
from holdfast.conversation.terms.decisions import DecisionRecord, SuspensionKind
from holdfast.conversation.terms.delegation import Delegation, Parent
from holdfast.conversation.terms.overrides import Overrides
from holdfast.conversation.terms.parts import Attachment, Part
from holdfast.conversation.terms.principal import Principal
from holdfast.conversation.terms.spec import Approval, Choice, Executor, Resume
from holdfast.conversation.terms.stages import OnTimeout
from holdfast.conversation.text.jsontext import JsonText
from holdfast.errors import SettledBy as SettledBy  # noqa: PLC0414 - it is an event's word, and stands where an error has it too

from .context_events import Compacted as Compacted  # noqa: PLC0414 - an event like the others
from .context_events import CompactionRequested as CompactionRequested  # noqa: PLC0414 - an event like the others
from .context_events import CompactionStarted as CompactionStarted  # noqa: PLC0414 - an event like the others
from .context_events import ContextOverflowed as ContextOverflowed  # noqa: PLC0414 - an event like the others
from .context_events import SummaryFailed as SummaryFailed  # noqa: PLC0414 - an event like the others
from .event_base import CallEvent, ChainLink, EventBase, FailureReason, OfTurn, Reached, StopReason
from .event_base import SummaryFailure as SummaryFailure  # noqa: PLC0414 - an event's word
from .grant_events import GivenRevoked as GivenRevoked  # noqa: PLC0414 - an event like the others
from .grant_events import GrantGiven as GrantGiven  # noqa: PLC0414 - an event like the others
from .grant_events import GrantRevoked as GrantRevoked  # noqa: PLC0414 - an event like the others
from .grant_events import WithdrawnVote as WithdrawnVote  # noqa: PLC0414 - what one of them holds
from .input_events import InputDue as InputDue  # noqa: PLC0414 - an event like the others
from .input_events import InputJoined as InputJoined  # noqa: PLC0414 - an event like the others
from .input_events import InputRescheduled as InputRescheduled  # noqa: PLC0414 - an event like the others
from .input_events import InputSuperseded as InputSuperseded  # noqa: PLC0414 - an event like the others
from .input_events import InputWithdrawn as InputWithdrawn  # noqa: PLC0414 - an event like the others
from .input_events import Origin as Origin  # noqa: PLC0414 - where a message comes from
from .suspension_events import CallAssigned as CallAssigned  # noqa: PLC0414 - an event like the others
from .suspension_events import CallClaimed as CallClaimed  # noqa: PLC0414 - an event like the others
from .suspension_events import CallCommented as CallCommented  # noqa: PLC0414 - an event like the others
from .suspension_events import CallEscalated as CallEscalated  # noqa: PLC0414 - an event like the others
from .suspension_events import CallGivenBack as CallGivenBack  # noqa: PLC0414 - an event like the others
from .suspension_events import CallReminded as CallReminded  # noqa: PLC0414 - an event like the others
from .suspension_events import CallSnoozed as CallSnoozed  # noqa: PLC0414 - an event like the others
from .suspension_events import SuspensionSettled as SuspensionSettled  # noqa: PLC0414 - an event like the others
from .suspension_events import VoteCast as VoteCast  # noqa: PLC0414 - an event like the others


class ConversationStarted(EventBase):
    """The first event of every log.

    Attributes:
        conversation_id: The conversation.
        agent: The name of the conversation's agent.
        app: The import path of the agent's app, `package.module:app`.
        context: The JSON text of `start(context=...)`: tools read it, the model does not see it.
        attended: Whether there is a person to ask; if not, the agent's `unattended` says what is done instead.
        parent: The wait of another conversation that it was started for; None: nobody delegated anything to it.
    """

    kind: Literal["conversation_started"] = "conversation_started"
    conversation_id: str
    agent: str
    app: str
    context: JsonText = "null"
    attended: bool = True
    parent: Parent | None = None


class MessageAccepted(ChainLink):
    """A message was accepted; its turn begins when those of a lower priority and those before it are over.

    Attributes:
        message_id: The message's idempotency key.
        digest: The digest that a repetition with the same id is compared with.
        text: The user's text, or the parts of the message.
        principal: Who sent it, and how that was proven; None if unknown.
        traceparent: The sender's trace context.
        priority: Its priority, from 0 (first) to 255 (last).
        due_at: When it is queued, in integer milliseconds UTC; 0: at once.
        steers: Whether it joins the turn that goes on, instead of waiting for one of its own.
        origin: Where it comes from, as the sender says.
        overrides: What the model calls of its turn have in place of what the agent says; None: nothing.
    """

    kind: Literal["message_accepted"] = "message_accepted"
    message_id: str
    digest: str
    text: str | tuple[Part, ...]
    principal: Principal | None = None
    traceparent: str | None = None
    priority: int = 128
    due_at: int = 0
    steers: bool = False
    origin: Origin = Origin.USER
    overrides: Overrides | None = None


class TurnStarted(OfTurn):
    """The turn of a queued message began, with this spec and this code.

    Attributes:
        message_seq: The `seq` of its message.
        spec_digest: The stored agent spec that the turn runs with; empty if there is none.
        code: The digest of the app's code that its work runs with; empty if there is none.
        max_model_calls: How many model calls it may have (`Limits.max_model_calls`).
        traceparent: The trace context of the turn's first span.
        counted: Whether what its `Stop` bounds is counted.
        ends_at: When its `Stop` ends it, in integer milliseconds UTC, if it never waits for people; 0: never.
        waits: Whether the time in which it waits for people counts, too.
        budgets: What its agent's budgets are for, toward which its answers count.
        asks: Whether a bound of its `Stop` is a question to a person before it ends the turn.
    """

    kind: Literal["turn_started"] = "turn_started"
    message_seq: int
    spec_digest: str
    code: str
    max_model_calls: int
    traceparent: str | None = None
    counted: bool = False
    ends_at: int = 0
    waits: bool = False
    budgets: tuple[Per, ...] = ()
    asks: bool = False


class RequestedCall(Record):
    """A tool call as the model asked for it.

    Attributes:
        tool_call_id: The call's id, unique in the conversation for ever.
        name: The tool's name as the model wrote it.
        arguments: The arguments' text as the model wrote it, which need not be JSON.
        original_id: The model's own id of the call, if that was missing, used before or too long; up to 200 characters.
        context: The JSON text of the context that a delegating tool made for its child; None: the child has the parent's.
    """

    tool_call_id: str
    name: str
    arguments: str
    original_id: str | None = None
    context: JsonText | None = None


class ModelAnswered(EventBase):
    """The model's message: text, calls, or both.

    Attributes:
        effect_id: The model call that this answers.
        content: The text; None if there was none.
        calls: The tool calls, in the model's order.
        finish_reason: How the answer ended, in the provider's word.
        input_tokens: How many tokens the request had, if the provider said so.
        output_tokens: How many tokens the answer had, if the provider said so.
        reasoning: The part of the model's thinking that it showed, apart from the reply.
        provider: The JSON text of an object that only the model's provider reads: calls that it executed with their results,
            signed or sealed thinking. It is sent back as it came.
        model: The model that answered: a fallback, or one that the turn's message chose; empty: the agent's first model.
        cached_tokens: How many of the request's tokens the provider read from its cache, as far as it said so.
        reasoning_tokens: How many of the answer's tokens are thinking, as far as the provider said so.
        cost_usd: What the answer cost in US dollars, by litellm's prices; None if the price or the tokens are unknown.
        duration_ms: How long the model call took, with retries and fallbacks, in milliseconds.
        first_token_ms: The milliseconds from the answered request to the first piece of its answer.
        shaped: Whether it is a reply that fits what its agent declares: its text, or the arguments of its one call.
        misfit: What is wrong with it as such a reply; the model is told so. None if it fits, or if it is no reply.
    """

    kind: Literal["model_answered"] = "model_answered"
    effect_id: str
    content: str | None = None
    calls: tuple[RequestedCall, ...] = ()
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning: str | None = None
    provider: JsonText | None = None
    model: str = ""
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    duration_ms: int | None = None
    first_token_ms: int | None = None
    shaped: bool = False
    misfit: str | None = None


class RunScheduled(CallEvent):
    """A run is outstanding from here on: of a server call's callback, or of the check before a client is given its call.

    Attributes:
        executor: Who produces the call's result. A client's call runs nowhere: a worker asks the rules in force about it.
        attempt: Which run of the call this is, from 1; each repetition of a lost run is one more.
        approval: Whether a person had to approve the call.
        resumed: How many of the call's runs, this one included, followed a decision on a suspension of the previous run.
        decided_at: The `seq` of the `suspension_settled` whose decision this run follows from; 0 without one.
        grants: The grants by which the call runs without asking.
    """

    kind: Literal["run_scheduled"] = "run_scheduled"
    LAST: ClassVar[str] = "arguments_at approval on_lost resumed decided_at batch_id rule targets grants approvers executor"
    attempt: int
    approval: Approval = Approval.AUTO
    resumed: int = 0
    decided_at: int = 0
    grants: tuple[str, ...] = ()
    executor: Executor = Executor.SERVER


class CallHeld(CallEvent):
    """A call waits for its turn among the calls of one answer, as the agent's `execution` says.

    Attributes:
        executor: Who produces the call's result.
        approval: Whether a person has to approve the call.
        resumed: How many of the call's runs so far do not count as attempts: each was followed by a decision, or did not begin.
        decided_at: The `seq` of the `suspension_settled` that approved the call; 0 if there is none.
        prompt: The question to a person, as the tool's `prompt` rendered it.
        rule_reason: Why the permission rule asks, in its words.
        ruling: The decision of an unattended conversation if the call would ask; None if a person is asked.
        on_timeout: What follows if nobody decides in time, as the rule that asks says; None: what the tool says.
        share: How many conversations may stand below the one that the call is delegated to.
        held_until: When the call may begin at the earliest, in integer milliseconds UTC; 0: no time.
    """

    kind: Literal["call_held"] = "call_held"
    LAST: ClassVar[str] = (
        "arguments_at on_lost resumed decided_at prompt batch_id rule rule_reason targets approvers ruling on_timeout share "
        "held_until"
    )
    executor: Executor
    approval: Approval
    resumed: int = 0
    decided_at: int = 0
    prompt: str | None = None
    rule_reason: str = ""
    ruling: DecisionRecord | None = None
    on_timeout: OnTimeout | None = None
    share: int = 0
    held_until: int = 0


class CallSuspended(CallEvent):
    """A call awaits somebody outside.

    Attributes:
        executor: Who produces the call's result.
        approval: Whether a person has to approve the call.
        suspension_id: The suspension. A decision that names it is for this call and these arguments.
        suspension_kind: The kind of decision that the call waits for.
        expires_at: The deadline, in integer milliseconds UTC by the store's clock.
        prompt: The question to a person, as the tool's `prompt` rendered it.
        response_schema: The JSON text of the schema that an answer must fit; None for an approval.
        traceparent: The trace context of the turn's span in which the call was suspended.
        decisions: What a person may decide about an approval; None: the default.
        resume: What a decision does with the call.
        title: What a review is about, in one line.
        action: What a review asks for, in one word.
        report_md: The report for the reviewer, in markdown.
        payload: The JSON text of what a review is about, as data.
        rule_reason: Why the permission rule asks, in its words.
        grants: The grants by which a client executes the call without asking.
        message_at: The `seq` of the message that the turn answers, which says who asked for it; 0 if unknown.
        questions: Whether the call's arguments are questions, which an answer has to fit.
        salt: The salt of the digest of what it shows; empty if an older release suspended the call.
        source: The machine that the call waits for, such as another conversation; empty: it waits for people.
        on_timeout: What follows if nobody decides in time, as the rule or the body that asks says; None: what the tool says.
        stage: How many escalations there were before its arguments were edited.
        stage_at: When its stage began, in integer milliseconds UTC, if its arguments were edited since; else 0.
        remind_at: When its approvers are reminded, in integer milliseconds UTC; 0: never.
        delegation: What its `source`, another conversation, is asked; None: nothing.
        share: How many conversations may stand below the one that the call is delegated to.
        look_at: When to look whether a client is attached for it, in integer milliseconds UTC; 0: never.
        claims: How often clients have claimed the call before.
        reached: The bound of its `Stop` that the turn has reached, if the call asks whether it may go on; else None.
        own_arguments: The JSON text of the arguments of such a call; None: the model has given them.
    """

    kind: Literal["call_suspended"] = "call_suspended"
    LAST: ClassVar[str] = (
        "arguments_at expires_at prompt response_schema on_lost traceparent batch_id decisions resume title action report_md "
        "payload rule rule_reason targets grants approvers message_at questions salt source on_timeout stage stage_at "
        "remind_at delegation share look_at claims reached own_arguments"
    )
    executor: Executor
    approval: Approval
    suspension_id: str
    suspension_kind: SuspensionKind
    expires_at: int
    prompt: str | None = None
    response_schema: JsonText | None = None
    traceparent: str | None = None
    decisions: tuple[Choice, ...] | None = None
    resume: Resume = Resume.REPLAY
    title: str | None = None
    action: str | None = None
    report_md: str | None = None
    payload: JsonText | None = None
    rule_reason: str = ""
    grants: tuple[str, ...] = ()
    message_at: int = 0
    questions: bool = False
    salt: str = ""
    source: str = ""
    on_timeout: OnTimeout | None = None
    stage: int = 0
    stage_at: int = 0
    remind_at: int = 0
    delegation: Delegation | None = None
    share: int = 0
    look_at: int = 0
    claims: int = 0
    reached: Reached | None = None
    own_arguments: JsonText | None = None


class CallResolved(ChainLink):
    """A call has its result: the envelope that the model reads.

    Attributes:
        tool_call_id: The call.
        ok: Whether the call succeeded.
        content: The envelope's JSON text: `{"ok": true, "result": ...}` or `{"ok": false, "error": ...}`.
        by: What produced the result.
        untrusted: Whether a client sent the result; the envelope says so too.
        rule: The name of the permission rule that denies the call; empty if there is none.
        attached: The images and files of the result; in its envelope each has its number, from 1, as `attached`.
    """

    kind: Literal["call_resolved"] = "call_resolved"
    tool_call_id: str
    ok: bool
    content: JsonText
    by: SettledBy
    untrusted: bool = False
    rule: str = ""
    attached: tuple[Attachment, ...] = ()


class StopReached(OfTurn):
    """The turn has reached a bound of its agent's `Stop`: one more model call follows, without tools, and then its end.

    Attributes:
        reason: The kind of the bound.
        detail: The bound, in words.
    """

    kind: Literal["stop_reached"] = "stop_reached"
    reason: StopReason
    detail: str


class TurnCompleted(OfTurn):
    """The turn ended with the model's final answer.

    Attributes:
        reply_seq: The `seq` of the `model_answered` that has the reply; 0 if the turn was stopped before any.
        stopped: What cut the reply off, or stopped the turn; None if the reply is whole.
        detail: The bound of the agent's `Stop` that was reached, in words; empty otherwise.
    """

    kind: Literal["turn_completed"] = "turn_completed"
    reply_seq: int
    stopped: StopReason | None = None
    detail: str = ""


class TurnFailed(OfTurn):
    """The turn ended with an error; the conversation can go on.

    Attributes:
        error: What went wrong, in words and without secrets.
        reason: The kind of the error; None if no kind fits.
        until: From when on the agent's `Budget` counts anew, in integer milliseconds UTC; 0: never, or it did not fail by that.
    """

    kind: Literal["turn_failed"] = "turn_failed"
    error: str
    reason: FailureReason | None = None
    until: int = 0


class TurnCancelled(OfTurn, ChainLink):
    """The turn was cancelled, and with it these calls.

    Attributes:
        calls: The ids of the calls that were open, and have an error result now.
        request_id: The cancellation's idempotency key; None if the conversation's end cancelled the turn.
        principal: Who cancelled it, and how that was proven; None if unknown.
    """

    kind: Literal["turn_cancelled"] = "turn_cancelled"
    calls: tuple[str, ...] = ()
    request_id: str | None = None
    principal: Principal | None = None


class PendingCancelled(OfTurn, ChainLink):
    """The calls that waited were cancelled, and their turn goes on without them.

    Attributes:
        calls: The ids of the calls, which have an error result now.
        request_id: The cancellation's idempotency key.
        principal: Who cancelled them, and how that was proven; None if unknown.
    """

    kind: Literal["pending_cancelled"] = "pending_cancelled"
    calls: tuple[str, ...]
    request_id: str
    principal: Principal | None = None


class NothingCancelled(EventBase):
    """A cancellation found nothing to cancel. Only logs up to record version 5 have this event.

    Attributes:
        request_id: The cancellation's idempotency key.
        what: What was to be cancelled: a turn (`cancel`), or the pending calls (`cancel_pending`).
    """

    kind: Literal["nothing_cancelled"] = "nothing_cancelled"
    request_id: str
    what: Literal["cancel", "cancel_pending"] = "cancel"


class Ended(ChainLink):
    """The conversation ended for good; no event follows.

    Attributes:
        request_id: The idempotency key of the end.
        principal: Who ended it, and how that was proven; None if unknown.
    """

    kind: Literal["conversation_ended"] = "conversation_ended"
    request_id: str | None = None
    principal: Principal | None = None


Event: TypeAlias = Annotated[
    ConversationStarted
    | MessageAccepted
    | InputDue
    | InputJoined
    | InputRescheduled
    | InputWithdrawn
    | InputSuperseded
    | TurnStarted
    | ModelAnswered
    | CompactionRequested
    | CompactionStarted
    | Compacted
    | SummaryFailed
    | ContextOverflowed
    | RunScheduled
    | CallHeld
    | CallSuspended
    | SuspensionSettled
    | VoteCast
    | CallAssigned
    | CallCommented
    | CallSnoozed
    | CallReminded
    | CallEscalated
    | CallClaimed
    | CallGivenBack
    | CallResolved
    | StopReached
    | TurnCompleted
    | TurnFailed
    | TurnCancelled
    | PendingCancelled
    | NothingCancelled
    | GrantGiven
    | GrantRevoked
    | GivenRevoked
    | Ended,
    Field(discriminator="kind"),
]
EVENTS: tuple[type[EventBase], ...] = get_args(get_args(Event)[0])
for _event in EVENTS:  # at the import, in one thread; their base classes are never built
    _event.model_rebuild()
