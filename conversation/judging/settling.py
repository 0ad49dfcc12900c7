"""Settling a suspension by a fitting decision, and the next step of its call."""

from holdfast.conversation.records.calls import Call
from holdfast.conversation.records.events import SettledBy
from holdfast.conversation.terms.decisions import DecisionKind, DecisionRecord, SuspensionKind
from holdfast.conversation.terms.spec import Approval, Executor
from holdfast.conversation.text.envelope import failure, reviewed, success

from . import voting
from .cancelling import why_cancelled
from .fitting import Fitted
from .granting import give
from .judgement import Draft, Receipt
from .progress import begin, finish, go_on, schedule, settled, suspend


def settle(draft: Draft, fitted: Fitted) -> Receipt:
    """Settle a suspension by a decision and carry it out for its call, or count the decision as a vote."""
    call, ruling, needed = fitted.call, fitted.ruling, fitted.call.needed
    votes = len(fitted.suspension.votes) if needed else 0
    if needed and fitted.is_yes:
        if fitted.is_edit:
            fitted, votes = _asked_anew(draft, fitted), 0
        votes += 1
        if votes < needed:
            return draft.receipt(voting.cast(draft, fitted, votes), settled=False, votes=votes, needed=needed)
    seq = settled(
        draft,
        call,
        SettledBy.CANCELLATION if ruling.kind is DecisionKind.CANCEL else SettledBy(ruling.kind.value),
        ruling,
        decision_id=fitted.decision_id,
        digest=fitted.digest,
        principal=draft.principal,
        votes=votes,
        needed=needed,
    )
    _follow(draft, fitted, seq)
    if ruling.scope is not None:
        give(draft, ruling.scope, seq=seq, terms=call.deciders)
    return draft.receipt(seq, votes=votes, needed=needed)


def _asked_anew(draft: Draft, fitted: Fitted) -> Fitted:
    """Suspend the call again with the edited arguments, until the same deadline; the editor's vote counts for them."""
    call, before = fitted.call, fitted.suspension
    seq = settled(draft, call, SettledBy.EDIT, fitted.ruling, principal=draft.principal)
    edited = call.edited(seq).model_copy(update={"suspension": None})
    suspend(draft, edited, before.kind, prompt=draft.tool_of(call).prompt, expires_at=before.expires_at)
    again = draft.state.calls.of(call.tool_call_id)
    suspension = before if again is None or again.suspension is None else again.suspension
    as_they_are = DecisionRecord(kind=DecisionKind.APPROVE, reason=fitted.ruling.reason)
    return Fitted(call, suspension, as_they_are, None, fitted.decision_id, fitted.digest)


def _follow(draft: Draft, fitted: Fitted, seq: int) -> None:
    call, ruling, value, call_id = fitted.call, fitted.ruling, fitted.value, fitted.call.tool_call_id
    untrusted = call.executor is Executor.CLIENT
    if call.passes(fitted.suspension, ruling.kind):
        if fitted.suspension.kind is SuspensionKind.REVIEW:
            by_grant = call.approval is Approval.REQUIRED and not call.is_approved()  # a review is no approval
            changes = {"resumed": call.resumed + 1, "decided_at": 0 if by_grant else seq, "suspension": None}
            begin(draft, call.model_copy(update=changes))
        else:
            _let_go(draft, call, seq)
        return
    match ruling.kind:
        case DecisionKind.APPROVE:
            resumed = call.resumed + (call.attempt > 0)  # an attempt that was suspended at its dispatch never began
            approved = call if ruling.body is None else call.edited(seq)
            _let_go(draft, approved.model_copy(update={"resumed": resumed}), seq)
        case DecisionKind.DENY:
            denied = "the user declined to answer" if call.executor is Executor.HUMAN else "the user denied this call"
            finish(draft, call_id, failure(f"{denied}: {value}" if value else denied), by=SettledBy.DENY)
        case DecisionKind.ANSWER:
            at_client = untrusted and fitted.suspension.kind is SuspensionKind.CLIENT_EXEC
            envelope = success(fitted.result(draft.tool_of(call)), untrusted=at_client)
            finish(draft, call_id, envelope, by=SettledBy.ANSWER, ok=True, untrusted=at_client)
        case DecisionKind.FAIL:
            said = f"the client failed: {value}" if untrusted else str(value)
            envelope = failure(said if value else "it failed, and nobody said why", untrusted=untrusted)
            finish(draft, call_id, envelope, by=SettledBy.FAIL, untrusted=untrusted)
        case DecisionKind.REDISPATCH:
            schedule(draft, call.model_copy(update={"decided_at": call.decided_at or seq}))
        case DecisionKind.CANCEL:
            finish(draft, call_id, failure(why_cancelled(call, ruling.reason)), by=SettledBy.CANCELLATION)
        case DecisionKind.REVIEW:
            finish(draft, call_id, reviewed(value["verdict"], value["notes"]), by=SettledBy.REVIEW, ok=True)


def _let_go(draft: Draft, call: Call, seq: int) -> None:
    """Go on with an approved call. If its required approvers only gave a grant, the grant must let it run."""
    now = draft.state.calls.of(call.tool_call_id)
    approved = call.model_copy(update={"fulfilled": None if now is None else now.fulfilled})
    changes = {"decided_at": seq if approved.is_approved() else 0, "held_at": 0, "suspension": None}
    go_on(draft, call.model_copy(update=changes))
