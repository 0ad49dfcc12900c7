"""What is due while calls wait: reminders, escalations, and what decides in the end when nobody did."""

from holdfast.conversation.records.calls import Call, Suspension
from holdfast.conversation.records.commands import EscalateCall, Wake
from holdfast.conversation.records.events import CallEscalated, CallReminded, CallSuspended, InputDue, SettledBy
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.decisions import DecisionKind, DecisionRecord, SuspensionKind
from holdfast.conversation.terms.spec import Approval
from holdfast.conversation.terms.stages import NOTHING, Default, OnTimeout
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.envelope import failure
from holdfast.errors import InvalidDecision, InvalidInput, StaleCall, StaleReason

from . import noting
from .deciding import Fitted, check_permitted, fit, follow
from .judgement import Judgement
from .progress import OF_TOOL, Draft, advance, check_words, finish, give_up, settled

NO_ANSWER = {
    SuspensionKind.APPROVAL: "nobody approved this call in time: it did not run (the user did not respond)",
    SuspensionKind.ELICITATION: "the user did not respond in time",
    SuspensionKind.CLIENT_EXEC: "the client did not respond in time",
    SuspensionKind.REVIEW: "nobody reviewed this in time (the user did not respond)",
    SuspensionKind.DELEGATE: "the agent that was asked did not answer in time",
    SuspensionKind.LOST: "outcome unknown: the worker was lost while this call ran, and nobody said in time what became of it",
}
"""The error text that the model reads when a suspension has expired."""
WITHOUT_STAGES = "a client's call and a wait for a machine have no other deciders"


def wake(state: State, command: Wake) -> Judgement:
    """Do what is due: for each suspension, for calls that are held until a time, and for delayed messages.

    The model can recover from the error of a call that nobody decided.
    """
    draft = Draft(state, command)
    due = tuple(one.seq for one in state.delayed if one.due_at <= command.now)
    if due:
        draft.emit(InputDue(at=command.now, message_seqs=due))
    known = {*command.reads(state, command.spec)}
    for call in state.calls.due(command.now):
        if call.suspension is not None and known.issuperset(call.places_of_timeout(command.spec)):
            _act(draft, call, call.suspension)
    advance(draft)
    return draft.done() if draft.events else Judgement(ignored="nothing is due")


def escalate(state: State, command: EscalateCall) -> Judgement:
    """Let others decide a suspended call, for as long as its present stage lasts.

    Whoever may decide the call may do so, but not lower what is asked of those who decide; a proven administrator may.
    """
    trusted = command.administrator and command.proven is not None
    call, suspension = noting.noted(state, command, "approvers", trusted=trusted)
    if command.principal is None:
        raise InvalidInput("principal", "nobody said who lets others decide", "use client.acting_as(Principal(...))")
    if not trusted:
        check_permitted(Draft(state, command), call)
    if command.now >= suspension.expires_at:
        raise StaleCall(state.conversation_id, call.tool_call_id, StaleReason.EXPIRED)
    if suspension.kind not in OF_TOOL | {SuspensionKind.REVIEW}:
        raise InvalidInput("call", WITHOUT_STAGES, "decide or cancel the call")
    if not command.approvers.fits:
        raise InvalidInput("approvers", "the names are too long together", "name a role instead")
    check_words(command.reason, command.limits.note_bytes, "reason", InvalidInput)
    draft = Draft(state, command)
    lasts = suspension.expires_at - (suspension.stage_at or suspension.created_at)
    expires_at = draft.capped(command.now + max(lasts, 1))
    seq = draft.emit(
        CallEscalated(
            at=command.now,
            tool_call_id=call.tool_call_id,
            suspension_id=suspension.suspension_id,
            approvers=command.approvers.instead_of(call.deciders, strict=not trusted),
            stage=suspension.stage,
            expires_at=expires_at,
            remind_at=_on_timeout(draft, call, suspension).remind_at(command.now, expires_at),
            to=command.to,
            request_id=command.request_id,
            principal=command.principal,
            reason=command.reason,
            noted=suspension.notes,
        )
    )
    return draft.done(draft.receipt(seq))


def _on_timeout(draft: Draft, call: Call, suspension: Suspension) -> OnTimeout:
    """What follows at a suspension's deadline; nothing if its event cannot be read."""
    if suspension.staged:
        asked = draft.command.read.get(suspension.seq)
        return (asked.on_timeout or NOTHING) if isinstance(asked, CallSuspended) else NOTHING
    return draft.tool_of(call).on_timeout if suspension.kind in OF_TOOL else NOTHING


def _act(draft: Draft, call: Call, suspension: Suspension) -> None:
    """Do what is due for one suspension."""
    terms, now = _on_timeout(draft, call, suspension), draft.now
    named = {"at": now, "tool_call_id": call.tool_call_id, "suspension_id": suspension.suspension_id}
    if draft.is_over:  # nobody waits for the conversation any more
        give_up(draft, call, NO_ANSWER[suspension.kind], by=SettledBy.EXPIRY)
    elif suspension.expires_at > now:
        draft.emit(CallReminded(**named, remind_at=terms.remind_at(now, suspension.expires_at)))
    elif suspension.stage < len(terms.stages):
        stage = terms.stages[suspension.stage]
        expires_at = draft.capped(now + max(round(stage.for_s * 1000), 1))
        draft.emit(
            CallEscalated(
                **named,
                approvers=stage.approvers.instead_of(call.deciders, strict=False),
                stage=suspension.stage + 1,
                expires_at=expires_at,
                remind_at=terms.remind_at(now, expires_at),
                noted=suspension.notes,
            )
        )
    elif terms.default is None or not _decided(draft, call, suspension, terms.default):
        give_up(draft, call, NO_ANSWER[suspension.kind], by=SettledBy.EXPIRY)


def _decided(draft: Draft, call: Call, suspension: Suspension, default: Default) -> bool:
    """Whether the default fits, and has decided the call. Nothing lets a call run that nobody approved."""
    ruling = DecisionRecord(kind=DecisionKind(default.kind), body=default.value)
    if ruling.kind is DecisionKind.DENY:
        settled(draft, call, SettledBy.EXPIRY, ruling)
        reason = jsontext.loads(default.value)
        said = f"{NO_ANSWER[suspension.kind]}{': ' if reason else ''}{reason}"
        finish(draft, call.tool_call_id, failure(said), by=SettledBy.EXPIRY)
        return True
    try:
        fitted = fit(draft, call, suspension, ruling)
    except InvalidDecision:
        return False
    if suspension.kind is SuspensionKind.APPROVAL and call.passes(suspension, ruling.kind):
        return False
    if suspension.kind is SuspensionKind.LOST and call.approval is Approval.REQUIRED:
        return False  # it was declared for an approval, and what the run did is not known
    if draft.tool_of(call).questions:  # with the defaults of the questions that it leaves out
        whole = ruling.model_copy(update={"body": jsontext.dumps(fitted.value)})
        fitted = Fitted(call, suspension, whole, fitted.value)
    follow(draft, fitted, settled(draft, call, SettledBy.EXPIRY, fitted.ruling), by=SettledBy.EXPIRY)
    return True
