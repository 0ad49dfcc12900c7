"""What is due while calls wait: reminders, escalations, and what decides in the end when nobody did."""

from collections.abc import Mapping
from dataclasses import replace

from holdfast.conversation.records.calls import Call, Suspension
from holdfast.conversation.records.commands import EscalateCall, Wake
from holdfast.conversation.records.events import CallEscalated, CallReminded, CallSuspended, InputDue, SettledBy
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.decisions import DecisionKind, DecisionRecord, SuspensionKind
from holdfast.conversation.terms.spec import Approval, Executor
from holdfast.conversation.terms.stages import NOTHING, Default, OnTimeout
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.envelope import failure
from holdfast.errors import InvalidDecision, InvalidInput, StaleCall, StaleReason

from . import clients, noting, stopping
from .cancelled import why_cancelled
from .deciding import Fitted, check_permitted, fit, follow
from .judgement import Draft, Judgement, check_words
from .progress import OF_TOOL, advance, finish, give_up, settled, stop

NO_ANSWER = {
    SuspensionKind.APPROVAL: "nobody approved this call in time: it did not run (the user did not respond)",
    SuspensionKind.ELICITATION: "the user did not respond in time",
    SuspensionKind.CLIENT_EXEC: "the client did not respond in time",
    SuspensionKind.REVIEW: "nobody reviewed this in time (the user did not respond)",
    SuspensionKind.LIMIT: "nobody let the turn go on in time",
    SuspensionKind.DELEGATE: "the agent that was asked did not answer in time",
    SuspensionKind.LOST: "outcome unknown: the worker was lost while this call ran, and nobody said in time what became of it",
}
"""The error text that the model reads when a suspension has expired."""
LOST_CLIENT = "outcome unknown: the client that executed this call left, and nobody said in time what became of it"
WITHOUT_STAGES = "a client's call and a wait for a machine have no other deciders"


def wake(state: State, command: Wake) -> Judgement:
    """Do what is due: for the turn, each suspension, clients, calls that are held until a time, and delayed messages.

    The model can recover from the error of a call that nobody decided.
    """
    draft = Draft(state, command)
    due = tuple(one.seq for one in state.delayed if one.due_at <= command.now)
    if due:
        draft.emit(InputDue(at=command.now, message_seqs=due))
    _stop_in_time(draft)
    known, looks = {*command.reads(state, command.spec)}, {}
    for call in draft.state.calls.due(command.now):
        one = call.suspension
        if one is None or not known.issuperset(call.places_of_timeout(command.spec)):
            continue
        if one.kind is SuspensionKind.CLIENT_EXEC and one.expires_at > command.now and not draft.is_over:
            if command.present is not None:
                looks[call.tool_call_id] = clients.look(draft, call, one, command.present)
        else:
            _act(draft, call, one)
    clients.leave(draft, command.present or ())
    advance(draft)
    judged = draft.done() if draft.events else Judgement(ignored="nothing is due")
    again = {named: at for named, at in looks.items() if at is not None}
    return replace(judged, due_at=_due_at(draft.state, again)) if again else judged


def _stop_in_time(draft: Draft) -> None:
    """Stop a turn that has gone on for too long: what runs and what waits ends, as of a turn that is cancelled.

    One that asks first does so while runs and waits go on; a model call ends before.
    """
    turn = draft.state.turn
    reached = None if turn is None else stopping.by_time(turn, draft.spec, draft.now)
    if turn is None or reached is None:
        return
    asks = stopping.asks_first(turn)
    if asks and draft.calls_model:
        return
    for call in () if asks else draft.state.calls.open():
        why = why_cancelled(call, stopping.CUT_SHORT.format(reached.detail))
        give_up(draft, call, why, by=SettledBy.CANCELLATION)
    stop(draft, reached)


def _due_at(state: State, again: Mapping[str, int]) -> int | None:
    """When something is due (ms UTC), if the clients for these calls are looked after again at these times."""
    times = [one.due_at for one in state.delayed[:1]]
    times += [] if state.turn_due_at is None else [state.turn_due_at]
    for call in (*state.calls.awaiting(), *state.calls.held()):
        at, one = again.get(call.tool_call_id), call.suspension
        due_at = call.due_at if at is None or one is None else min(at, one.expires_at)
        times += [] if due_at is None else [due_at]
    return min(times, default=None)


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
    if suspension.kind not in OF_TOOL | {SuspensionKind.REVIEW, SuspensionKind.LIMIT}:
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


def _no_answer(call: Call, suspension: Suspension) -> str:
    lost = suspension.kind is SuspensionKind.LOST and call.executor is Executor.CLIENT
    return LOST_CLIENT if lost else NO_ANSWER[suspension.kind]


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
        give_up(draft, call, _no_answer(call, suspension), by=SettledBy.EXPIRY)
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
        give_up(draft, call, _no_answer(call, suspension), by=SettledBy.EXPIRY)


def _decided(draft: Draft, call: Call, suspension: Suspension, default: Default) -> bool:
    """Whether the default fits, and has decided the call. Nothing lets a call run that nobody approved."""
    ruling = DecisionRecord(kind=DecisionKind(default.kind), body=default.value)
    if ruling.kind is DecisionKind.DENY:
        settled(draft, call, SettledBy.EXPIRY, ruling)
        reason = jsontext.loads(default.value)
        said = f"{_no_answer(call, suspension)}{': ' if reason else ''}{reason}"
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
