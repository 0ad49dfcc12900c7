"""What a page token may see: one table of the visible fields of replies and events, and the errors.

The user of a page sees the model's input and output, the state of the conversation, and all of their own pending calls. They do
not see what people, rules and operators add: names, roles, comments, log reasons, `context`. Fields outside the table are sent
empty, so that a client can parse the reply as usual.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

from holdfast import errors
from holdfast.client import (
    ConversationState,
    Event,
    Message,
    PendingCall,
    QueuedMessage,
    RunningCall,
    Turn,
    Usage,
    Wait,
    replies,
)
from holdfast.client.log_pages import MessagePage, TurnPage
from holdfast.client.tree import Node
from holdfast.conversation import CallTarget, Principal, Status
from holdfast.conversation.records import events as log
from holdfast.conversation.records import live
from holdfast.conversation.records.calls import ClaimView, Cut, PendingView
from holdfast.conversation.records.event_base import Reached
from holdfast.conversation.terms import parts
from holdfast.error_codes import code_of
from holdfast.errors import HoldfastError

from .caller import Caller
from .error_responses import headers_of
from .refusal import Refusal


class Row(NamedTuple):
    """The visibility of a reply's or an event's fields: `shown`, shown if the value is the page's `own`, or `hidden`.

    A call and its suspension are a page's own if it may decide them; an action, if its principal did it; a state, unless the
    conversation is in quarantine.
    """

    shown: str = ""
    own: str = ""
    hidden: str = ""


_RECEIPT = "conversation_id seq accepted_at duplicate audit_head"
_CALL = "tool_call_id tool executor"
_ASKED = "prompt response_schema decisions title action report_md payload rule rule_reason targets questions"

REPLIES: Mapping[type[BaseModel], Row] = {
    ConversationState: Row(
        "conversation_id status turn_id reply value failed stopped detail pending running seq agent created_at updated_at "
        "attended waits_for waits",
        "error",
        "app problem late",
    ),
    PendingCall: Row(
        f"conversation_id agent suspension_id kind created_at expires_at batch_id requester claimed attempt {_CALL}",
        f"arguments problem cut {_ASKED}",
        "approvers votes assigned comments snoozed escalated_at path",
    ),
    ClaimView: Row("by at", "client_id"),
    Cut: Row("size_bytes begins"),
    RunningCall: Row(f"since attempt progress {_CALL}", hidden="arguments grants"),  # a person may have edited them
    Wait: Row("tool_call_id tool since expires_at", hidden="conversation_id"),
    Node: Row("conversation_id agent status pending children tool_call_id waited_for left_out", hidden="problem"),
    CallTarget: Row("kind value level"),
    TurnPage: Row("items next previous"),
    MessagePage: Row("items next previous again"),
    Message: Row("message_id status turn_id reply error attempts accepted_at due_at joined_at superseded_by"),
    Turn: Row(
        "turn_id message_id status reply error failed until stopped detail attempts joined usage started_at ended_at "
        "duration_ms"
    ),
    Usage: Row("model_calls input_tokens output_tokens cached_tokens reasoning_tokens model_ms", hidden="cost_usd"),
    replies.MessageReceiptReply: Row(f"{_RECEIPT} message_id"),
    replies.InterruptedReply: Row(
        "conversation_id seq accepted_at turn_id cancelled superseded epoch duplicate request_id audit_head"
    ),
    replies.QueueReply: Row("items"),
    QueuedMessage: Row("message_id status text priority due_at steers origin principal accepted_at"),
    replies.DecisionReceiptReply: Row(f"{_RECEIPT} decision_id settled votes needed"),
    replies.SettledReply: Row(f"{_RECEIPT} suspension_id settled votes needed"),
    replies.DecidedManyReply: Row("conversation_id decision_id items"),
    replies.DecidedReply: Row("suspension_id decision_id status receipt problem"),
    replies.DecidedEachReply: Row("decision_id items"),
    replies.RevokedReply: Row(f"{_RECEIPT} request_id"),
    replies.NotedReply: Row(f"{_RECEIPT} request_id"),
    replies.ClaimReply: Row(f"{_RECEIPT} request_id attempt"),
    replies.HeardReply: Row("heard"),
    replies.CancelledReply: Row("conversation_id turn_id calls running duplicate request_id audit_head"),
    replies.GrantsReply: Row("items"),
    replies.GrantReply: Row("grant_id kind pattern level ends_at by seq"),
    replies.Problem: Row("type code title status detail"),
}
"""The visible fields of each reply. A principal is shown without roles, if it is the page's own."""

EVENTS: Mapping[type[BaseModel], Row] = {
    log.ConversationStarted: Row("conversation_id agent attended", hidden="app context parent"),
    log.MessageAccepted: Row(
        "message_id text principal priority due_at steers origin", hidden="digest traceparent salt head overrides"
    ),
    log.InputDue: Row("message_seqs"),
    log.InputJoined: Row("turn_id message_seqs"),
    log.InputRescheduled: Row("message_seq due_at priority principal", "request_id", "digest salt head"),
    log.InputWithdrawn: Row("message_seq principal", "request_id", "salt head"),
    log.InputSuperseded: Row("message_seqs message_ids by_seq epoch turn_id calls principal", "request_id", "digest salt head"),
    parts.TextPart: Row("type text"),
    parts.ImagePart: Row("type image_url"),
    parts.ImageUrl: Row("url detail"),
    parts.FilePart: Row("type file"),
    parts.FileData: Row("file_data file_url filename"),
    log.TurnStarted: Row(
        "turn_id message_seq",
        hidden="spec_digest code max_model_calls traceparent counted ends_at waits budgets asks",
    ),
    log.ModelAnswered: Row(
        "effect_id content calls finish_reason input_tokens output_tokens reasoning provider model cached_tokens "
        "reasoning_tokens duration_ms first_token_ms shaped misfit",
        hidden="cost_usd",
    ),
    log.CompactionRequested: Row("principal", "request_id", "salt head"),
    log.CompactionStarted: Row("turn_id requested_at", hidden="spec_digest code traceparent budgets"),
    log.Compacted: Row(
        "effect_id turn_id boundary messages tokens_before tokens_after model input_tokens output_tokens cached_tokens "
        "reasoning_tokens duration_ms first_token_ms",
        hidden="summary asked_at spec_digest cost_usd",
    ),
    log.ContextOverflowed: Row("effect_id turn_id", hidden="error"),
    log.SummaryFailed: Row(
        "effect_id turn_id reason model input_tokens output_tokens cached_tokens reasoning_tokens duration_ms first_token_ms",
        hidden="error cost_usd",
    ),
    log.RequestedCall: Row("tool_call_id name arguments original_id", hidden="context"),
    log.RunScheduled: Row(
        "tool_call_id tool executor attempt arguments_at approval resumed batch_id",
        hidden="on_lost decided_at rule targets grants approvers",
    ),
    log.CallHeld: Row(
        f"approval arguments_at resumed batch_id {_CALL}",
        hidden="on_lost decided_at prompt rule rule_reason targets approvers ruling on_timeout share held_until",
    ),
    log.CallSuspended: Row(
        f"approval suspension_id suspension_kind arguments_at expires_at batch_id reached {_CALL}",
        f"arguments own_arguments {_ASKED}",
        "on_lost traceparent resume grants approvers message_at salt source on_timeout stage stage_at remind_at "
        "delegation share look_at claims",
    ),
    Reached: Row("reason detail"),
    log.CallClaimed: Row(
        "tool_call_id suspension_id expires_at attempt principal", "client_id request_id", "noted on_detach look_at"
    ),
    log.CallGivenBack: Row(
        "tool_call_id suspension_id expires_at attempt by began principal", "client_id reason request_id", "noted look_at"
    ),
    CallTarget: Row("kind value level"),
    log.SuspensionSettled: Row(
        "tool_call_id suspension_id by decision principal",
        "body decision_id reason",
        "digest traceparent grants votes needed shown salt head source_ended",
    ),
    log.CallResolved: Row("tool_call_id ok content by untrusted attached", hidden="rule salt head"),
    log.StopReached: Row("turn_id reason detail"),
    log.TurnCompleted: Row("turn_id reply_seq stopped detail"),
    log.TurnFailed: Row("turn_id error reason until"),
    log.TurnCancelled: Row("turn_id calls principal", "request_id", "salt head"),
    log.PendingCancelled: Row("turn_id calls principal", "request_id", "salt head"),
    log.NothingCancelled: Row("what", hidden="request_id"),
    log.Ended: Row("principal", "request_id", "salt head"),
    live.TextDelta: Row("effect_id attempt text"),
    live.ReasoningDelta: Row("effect_id attempt text"),
    live.ArgumentsDelta: Row("effect_id attempt index tool text"),
    live.ProgressReported: Row("effect_id attempt value message status loaded total"),
}
"""The visible fields of each event, beside `kind`, `at`, `seq` and `live`. Events in neither table are not sent."""

WITHHELD = (
    *(log.VoteCast, log.CallAssigned, log.CallCommented, log.CallSnoozed, log.CallReminded, log.CallEscalated),
    *(log.GrantGiven, log.GrantRevoked, log.GivenRevoked),
)
"""Events about other people only."""

OPERATIONS = frozenset(
    (
        *(
            "getConversation",
            "getTree",
            "listMessages",
            "send",
            "getMessage",
            "listQueue",
            "interrupt",
            "withdraw",
            "reschedule",
            "listTurns",
            "getTurn",
            "cancel",
            "followConversation",
        ),
        *("getPending", "resolve", "resolveCall", "resolveMany", "resolveEach", "cancelPending", "assign", "comment"),
        *("attach", "claim", "giveBack", "reportProgress"),
        *("listGrants", "revokeGrant", "showForm", "readForm"),
    )
)
"""The operations that a page may call, in its conversation. The others are about people, other conversations or operating."""

_PLAIN = (
    *(Refusal, errors.AlreadyVoted, errors.ConversationEnded, errors.ConversationNotFound, errors.InvalidConversationId),
    *(errors.InvalidDecision, errors.InvalidInput, errors.InvalidMessage, errors.MessageNotFound, errors.Overloaded),
    *(
        errors.ConversationBusy,
        errors.NotQueued,
        errors.QueueFull,
        errors.StaleCall,
        errors.TooManyClients,
        errors.TurnNotFound,
    ),
)
"""Errors that a page gets unchanged."""


def reply_of(caller: Caller, reply: Any) -> Any:
    """A reply as its caller may see it."""
    if caller.is_page:
        return _shown(caller, reply)
    return reply.model_dump() if isinstance(reply, BaseModel) else TypeAdapter(type(reply)).dump_python(reply)


def event_of(caller: Caller, event: Event) -> Mapping[str, Any] | None:
    """The data of an event as a caller may see it; None if they do not get the event."""
    if not caller.is_page:
        return event.data
    if type(event.body) not in EVENTS:
        return None
    found = {**_shown(caller, event.body), "kind": event.kind}
    if isinstance(event.body, log.CallSuspended):
        found["arguments"] = event.arguments if _is_own(caller, event.body) else None
    return found


def error_of(caller: Caller, error: HoldfastError) -> HoldfastError:
    """An error as a caller may see it: a page learns neither who else decides nor about the servers."""
    if not caller.is_page or type(error) in _PLAIN:
        return error
    match error:
        case errors.NotPermitted():
            return errors.NotPermitted(error.conversation_id, error.tool_call_id, "somebody else has to decide it")
        case errors.OutcomeUnknown():
            return errors.OutcomeUnknown("the request", error.retry_id)
        case errors.BatchRefused():
            shown = {name: error_of(caller, one) for name, one in error.errors.items()}
            return errors.BatchRefused(error.conversation_id, shown)
    detail = "this cannot be done now; the server's log says why"
    return Refusal(error.http_code, code_of(type(error)), detail, headers=headers_of(error))


def _shown(caller: Caller, model: BaseModel) -> dict[str, Any]:
    """The fields of a model as plain values; hidden ones are empty."""
    always, own = _names(type(model))
    names = always | own if _is_own(caller, model) else always
    shown = {
        name: _part(caller, getattr(model, name), plain) if name in names else _empty(type(model), name)
        for name, plain in model.model_dump(mode="json", exclude=set(model.model_extra or ())).items()
    }
    return shown | (model.model_extra or {})  # further fields of a problem, whose error pages may see


@cache
def _names(model: type[BaseModel]) -> tuple[frozenset[str], frozenset[str]]:
    """The fields of a model that are always shown, and those that are shown if the page's own."""
    framed = ("kind", "at") if model in EVENTS else ()
    row = REPLIES.get(model) or EVENTS.get(model, Row())
    return frozenset((*row.shown.split(), *framed)), frozenset(row.own.split())


def _part(caller: Caller, value: Any, plain: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_part(caller, one, simple) for one, simple in zip(value, plain, strict=True)]
    if isinstance(value, Principal):
        return {**plain, "roles": []} if _is_principal(caller, value) else None
    return _shown(caller, value) if isinstance(value, BaseModel) else plain


def _is_own(caller: Caller, model: BaseModel) -> bool:
    match model:
        case PendingView(kind=kind) | log.CallSuspended(suspension_kind=kind):
            return kind is not None and (caller.decides(kind) or caller.executes(kind))
        case ClaimView(by=by):
            return _is_principal(caller, by)
        case ConversationState(status=status):
            return status is not Status.QUARANTINED
        case _:
            return _is_principal(caller, getattr(model, "principal", None))


def _is_principal(caller: Caller, who: Any) -> bool:
    return who is not None and (who.id, who.proof) == (caller.principal.id, caller.principal.proof)


@cache
def _empty(model: type[BaseModel], name: str) -> Any:
    """The value sent for a hidden field: its default, or else the empty value of its type."""
    field = model.model_fields[name]
    taken: TypeAdapter[Any] = TypeAdapter(cast("Any", field.annotation))
    if not field.is_required():
        return taken.dump_python(field.get_default(call_default_factory=True), mode="json")
    nothing: tuple[Any, ...] = (None, "", 0, False, [], {})
    for one in nothing:
        try:
            return taken.dump_python(taken.validate_python(one, strict=True), mode="json")
        except ValidationError:
            continue
    raise TypeError(f"{model.__name__}.{name} cannot be left empty: show it, or give it a default")
