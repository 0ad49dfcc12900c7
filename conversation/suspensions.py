"""Judging decisions and deadlines: the two ways a suspension is settled from outside the turn."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from holdfast.errors import InvalidDecision, InvalidInput, StaleCall, StaleReason

from . import jsontext, questions, schema
from .calls import Call, CallStatus, Suspension, SuspensionKind, accepted
from .commands import CancelPending, Command, Resolve, ResolveMany, Wake
from .decisions import DecisionKind, ReviewVerdict, Ruling
from .envelope import failure, reviewed, success
from .events import (
    CallSuspended,
    ModelAnswered,
    PendingCancelled,
    SettledBy,
    SuspensionSettled,
    VoteCast,
)
from .granting import check_room, give, release
from .idempotency import call_key, decision_key, result_key, suspension_key
from .ids import check_request_id, payload_digest
from .judgement import Cancelled, Draft, Judgement, Receipt
from .lifecycle import nothing_cancelled, why_cancelled
from .progress import advance, begin, give_up, go_on, newly_traced, schedule, settle, suspend, tool_of
from .repeats import receipt_again
from .spec import AgentSpec, Approval, Choice, Executor, Limits, ToolSpec
from .state import State
from .voting import check_permitted, check_vote, is_edit, is_yes, what
from .words import check_words

NO_ANSWER = {
    SuspensionKind.APPROVAL: "nobody approved this call in time: it did not run (the user did not respond)",
    SuspensionKind.ELICITATION: "the user did not respond in time",
    SuspensionKind.CLIENT_EXEC: "the client did not respond in time",
    SuspensionKind.REVIEW: "nobody reviewed this in time (the user did not respond)",
    SuspensionKind.LOST: "outcome unknown: the worker was lost while this call ran, and nobody said in time what became of it",
}
"""The error text that the model reads when a suspension has expired."""
REVIEW_BYTES = 64
"""What the JSON text of a review has at most beside its notes, in bytes."""


def duplicate(state: State, command: Resolve) -> Judgement | None:
    """The first receipt, if this very decision was accepted before.

    Raises:
        InvalidDecision: The decision id was used for another decision.
    """
    known = command.known.get(decision_key(command.decision_id))
    if known is None:
        return None
    if known.digest != decision_digest(command, known.needed, command.tool_call_id, command.suspension_id, command.ruling):
        problem = f"{command.decision_id!r} was already used for another decision"
        raise InvalidDecision("decision_id", problem, "use a new decision_id for a new decision")
    return Judgement(reply=receipt_again(state, known))


def resolve(state: State, command: Resolve) -> Judgement:
    """Settle the suspension that the decision was meant for, and no other; or count it, where several have to agree.

    Raises:
        NotPermitted: Whoever decides may not decide this call.
        AlreadyVoted: The same person has agreed already.
        StaleCall: The suspension is unknown, settled, expired, cancelled or superseded.
        InvalidDecision: The decision or its id does not fit, or the decision must name one of several suspensions.
    """
    check_request_id("decision_id", command.decision_id, InvalidDecision)
    check_spec(state, command)
    call, suspension = _suspension(state, command)
    check_permitted(state, command, call)
    body = content(state, command, command.ruling, call, suspension)
    check_vote(state, command, call, command.ruling)
    check_room(state, [command.ruling], now=command.now)
    draft = Draft(state, command.now, command.trace, salt=command.salt)
    digest = decision_digest(command, call.needed, command.tool_call_id, command.suspension_id, command.ruling)
    receipt = decide_one(draft, command, call, Settlement(suspension, command.ruling, body, command.decision_id, digest))
    release(draft, [command.ruling], command.spec)
    advance(draft, command)
    return draft.done(receipt)


def check_spec(state: State, command: Resolve | ResolveMany) -> None:
    """Refuse a command that its shell has stamped with another spec than the turn's: that is a mistake of ours."""
    if state.turn is not None and command.spec is not None and command.spec.digest != state.turn.spec_digest:
        message = f"stamped with spec {command.spec.digest}, the turn runs with {state.turn.spec_digest}"
        raise ValueError(message)


@dataclass(frozen=True, slots=True)
class Settlement:
    """A judged decision: the suspension that it settles, its body as a value, and what a repetition is known by."""

    suspension: Suspension
    ruling: Ruling
    body: Any
    decision_id: str
    digest: str


def decide_one(draft: Draft, command: Resolve | ResolveMany, call: Call, settlement: Settlement) -> Receipt:
    """Settle a suspension by a decision, and do with its call what the decision says; or count the decision as a vote."""
    ruling, needed = settlement.ruling, call.needed
    votes = len(settlement.suspension.votes)
    if needed and is_yes(ruling):
        if is_edit(ruling, needed):
            settlement = _asked_anew(draft, command, call, settlement)
            votes = 0
        votes += 1
        if votes < needed:
            seq = draft.emit(_vote(command, settlement, call.tool_call_id, votes=votes, needed=needed))
            return _receipt(draft, seq, votes, needed, settled=False)
    seq = draft.emit(
        SuspensionSettled(
            at=command.now,
            tool_call_id=call.tool_call_id,
            suspension_id=settlement.suspension.suspension_id,
            by=SettledBy.CANCELLATION if ruling.kind is DecisionKind.CANCEL else SettledBy(ruling.kind.value),
            body=ruling.body,
            decision_id=settlement.decision_id,
            digest=settlement.digest,
            decision=ruling.kind,
            principal=command.principal,
            traceparent=newly_traced(draft),
            reason=ruling.reason,
            votes=votes if needed else 0,
            needed=needed,
        )
    )
    _follow(draft, command.spec, call, settlement, seq)
    if ruling.scope is not None:
        give(draft, command, ruling.scope, seq=seq, terms=call.deciders)
    return _receipt(draft, seq, votes if needed else 0, needed)


def _asked_anew(draft: Draft, command: Resolve | ResolveMany, call: Call, settlement: Settlement) -> Settlement:
    """Suspend the call again with the arguments as they were edited, until the same deadline: who edits them agrees to them."""
    ruling, before = settlement.ruling, settlement.suspension
    seq = draft.emit(
        SuspensionSettled(
            at=command.now,
            tool_call_id=call.tool_call_id,
            suspension_id=before.suspension_id,
            by=SettledBy.EDIT,
            body=ruling.body,
            decision=ruling.kind,
            principal=command.principal,
            traceparent=newly_traced(draft),
            reason=ruling.reason,
        )
    )
    tool = tool_of(command.spec, call)
    edited = call.edited(seq).model_copy(update={"suspension": None})
    suspend(draft, edited, command.spec, before.kind, prompt=tool.prompt, expires_at=before.expires_at)
    again = draft.state.calls.of(call.tool_call_id)
    suspension = before if again is None or again.suspension is None else again.suspension
    as_they_are = Ruling(kind=DecisionKind.APPROVE, reason=ruling.reason)
    return Settlement(suspension, as_they_are, None, settlement.decision_id, settlement.digest)


def _vote(command: Resolve | ResolveMany, settlement: Settlement, tool_call_id: str, *, votes: int, needed: int) -> VoteCast:
    if command.principal is None:
        message = f"a vote of nobody on call {tool_call_id!r}"
        raise ValueError(message)
    ruling = settlement.ruling
    return VoteCast(
        at=command.now,
        tool_call_id=tool_call_id,
        suspension_id=settlement.suspension.suspension_id,
        decision=ruling.kind,
        body=ruling.body,
        decision_id=settlement.decision_id,
        digest=settlement.digest,
        principal=command.principal,
        on=what(ruling),
        reason=ruling.reason,
        votes=votes,
        needed=needed,
        noted=settlement.suspension.notes,
    )


def _receipt(draft: Draft, seq: int, votes: int, needed: int, *, settled: bool = True) -> Receipt:
    return Receipt(
        conversation_id=draft.state.conversation_id,
        seq=seq,
        accepted_at=draft.now,
        settled=settled,
        votes=votes,
        needed=needed,
        audit_head=draft.head_at(seq),
    )


def cancel_pending(state: State, command: CancelPending) -> Judgement:
    """Settle each suspension, or each of one kind, with an error result; the turn goes on.

    Raises:
        InvalidInput: The request id has not the form of one, or the reason cannot be used.
    """
    check_request_id("request_id", command.request_id, InvalidInput)
    check_words(command.reason, command.spec, "reason", InvalidInput)
    wanted = [
        call
        for call in (state.turn.calls.open() if state.turn is not None else ())
        if call.suspension is not None and command.suspension_kind in (None, call.suspension.kind)
    ]
    draft = Draft(state, command.now, command.trace, salt=command.salt)
    if state.turn is None or not wanted:
        return nothing_cancelled(state, command)
    for call in wanted:
        why = f"{why_cancelled(call)}: {command.reason}" if command.reason else why_cancelled(call)
        give_up(draft, call, failure(why), by=SettledBy.CANCELLATION, principal=command.principal)
    turn_id, calls = state.turn.turn_id, tuple(call.tool_call_id for call in wanted)
    seq = draft.emit(
        PendingCancelled(
            at=command.now, turn_id=turn_id, calls=calls, request_id=command.request_id, principal=command.principal
        )
    )
    advance(draft, command)
    head = draft.head_at(seq)
    return draft.done(Cancelled(conversation_id=state.conversation_id, turn_id=turn_id, calls=calls, audit_head=head))


def wake(state: State, command: Wake) -> Judgement:
    """Settle each suspension whose deadline has passed; its call ends with an error that the model can recover from."""
    draft = Draft(state, command.now, command.trace, salt=command.salt)
    for call in state.calls.due(command.now):
        if call.suspension is not None:
            give_up(draft, call, failure(NO_ANSWER[call.suspension.kind]), by=SettledBy.EXPIRY)
    if not draft.events:
        return Judgement(ignored="nothing is due")
    advance(draft, command)
    return draft.done()


def decision_digest(
    command: Resolve | ResolveMany, needed: int, tool_call_id: str, suspension_id: str | None, ruling: Ruling
) -> str:
    """The digest by which two decisions count as the same: where several have to agree, those of one person alone."""
    given = "-" if ruling.body is None else "+"
    parts = (tool_call_id, suspension_id or "", ruling.kind, given, ruling.body or "")
    scope = None if ruling.scope is None else jsontext.dumps(ruling.scope.model_dump(mode="json"))
    voter = command.principal.id if needed and command.principal is not None else None
    return payload_digest("resolve", *parts, reason=ruling.reason or None, scope=scope, voter=voter)


def _suspension(state: State, command: Resolve) -> tuple[Call, Suspension]:
    call = state.turn.call(command.tool_call_id) if state.turn is not None else None
    suspension = call.suspension if call is not None and call.status is CallStatus.AWAITING else None
    if call is None or suspension is None:
        _stale(state, command)
    if command.suspension_id is None:
        if call.suspensions > 1:
            problem = f"call {call.tool_call_id!r} has been suspended {call.suspensions} times"
            raise InvalidDecision("suspension_id", problem, "name the suspension that was shown (PendingCall.suspension_id)")
        return call, suspension
    if command.suspension_id == suspension.suspension_id:
        return call, suspension
    known = command.known.get(suspension_key(command.suspension_id))
    if known is not None and known.tool_call_id == call.tool_call_id:
        raise StaleCall(state.conversation_id, call.tool_call_id, StaleReason.SUPERSEDED, known.by, known.at)
    raise StaleCall(state.conversation_id, call.tool_call_id, StaleReason.UNKNOWN)


def _stale(state: State, command: Resolve) -> NoReturn:
    known = None
    if command.suspension_id is not None:
        known = command.known.get(suspension_key(command.suspension_id))
        if known is not None and known.tool_call_id != command.tool_call_id:
            known = None
    if known is None and command.suspension_id is None:
        known = command.known.get(call_key(command.tool_call_id))
        if known is None or known.by is None:  # the call was never suspended: its result may be known
            known = command.known.get(result_key(command.tool_call_id), known)
    if known is None:
        raise StaleCall(state.conversation_id, command.tool_call_id, StaleReason.UNKNOWN)
    raise StaleCall(state.conversation_id, command.tool_call_id, known.reason, known.by, None if known.by is None else known.at)


def content(state: State, command: Command, ruling: Ruling, call: Call, suspension: Suspension) -> Any:
    """The decision's body as a value, judged against what the suspension accepts, the limits and the schemas.

    Raises:
        InvalidDecision: The decision does not fit.
    """
    limits = command.spec.limits if command.spec is not None else Limits()
    tool = tool_of(command.spec, call)
    asked = command.read.get(suspension.seq)
    own = suspension.kind is SuspensionKind.REVIEW  # what cannot be read takes no answer
    schema_text = asked.response_schema if isinstance(asked, CallSuspended) else None if own else tool.response_schema
    edited = state.turn is not None and call.arguments_at != state.turn.answered_at
    _check_accepted(ruling, suspension, tool, schema_text, edited=edited)
    check_words(ruling.reason, command.spec, "decision.reason", InvalidDecision)
    if ruling.scope is not None:
        _ = ruling.scope.scope  # the command may come from a shell that has not judged it
    if ruling.body is None:
        return None
    _check_size(ruling, limits)
    body = _parsed(ruling)
    match ruling.kind:
        case DecisionKind.APPROVE:
            if not isinstance(body, Mapping):
                problem = f"{type(body).__name__} is not a JSON object"
                raise InvalidDecision("decision.arguments", problem, "give an object, or leave it out")
            _check_schema("decision.arguments", tool.parameters, body)
        case DecisionKind.ANSWER:
            if tool.questions and suspension.kind is SuspensionKind.ELICITATION:
                return questions.check(_questions(command, call), body)
            _check_schema("decision.value", schema_text, body)
        case DecisionKind.DENY | DecisionKind.FAIL:
            if not isinstance(body, str):
                problem = f"{type(body).__name__} is not a string"
                raise InvalidDecision("decision", problem, "say why in a string")
        case DecisionKind.REVIEW:
            _check_review(body)
    return body


def _questions(command: Command, call: Call) -> tuple[questions.Question, ...]:
    """The questions of a call, as the model asked them."""
    asked = command.read.get(call.arguments_at)
    if isinstance(asked, ModelAnswered):
        found = next((one.arguments for one in asked.calls if one.tool_call_id == call.tool_call_id), "")
        with contextlib.suppress(jsontext.NotJson, questions.NotQuestions):
            return questions.parse(jsontext.loads(found))
    raise InvalidDecision(
        "decision.value", "the questions cannot be read, so no answer can be judged", "deny or cancel the call"
    )


def _check_accepted(
    ruling: Ruling, suspension: Suspension, tool: ToolSpec, schema_text: jsontext.JsonText | None, *, edited: bool
) -> None:
    takes = [kind.value for kind in accepted(suspension.kind, tool.decisions, with_schema=schema_text is not None)]
    if ruling.kind.value not in takes:
        problem = f"{ruling.kind.value} does not settle a call that waits for {suspension.kind.value}"
        raise InvalidDecision("decision", problem, f"decide {' or '.join(takes)}")
    if ruling.kind is not DecisionKind.APPROVE:
        return
    if ruling.body is not None and Choice.EDIT not in tool.decisions:
        problem = f"{tool.name} lets nobody edit its arguments (Tool.decisions)"
        raise InvalidDecision("decision.arguments", problem, "leave them out, or decide otherwise")
    if ruling.body is None and Choice.APPROVE not in tool.decisions and not edited:  # a vote for what another has edited
        problem = f"{tool.name} is not approved as it is (Tool.decisions)"
        raise InvalidDecision("decision.arguments", problem, "give edited arguments")


def _check_review(body: Any) -> None:
    if not isinstance(body, Mapping) or set(body) != {"verdict", "notes"} or not isinstance(body["notes"], str):
        raise InvalidDecision("decision", "it is no review", "give Review(verdict, notes)")
    if body["verdict"] not in tuple(ReviewVerdict):
        known = ", ".join(verdict.value for verdict in ReviewVerdict)
        raise InvalidDecision("decision.verdict", f"{body['verdict']!r:.40} is no verdict", f"give one of {known}")


def _parsed(ruling: Ruling) -> Any:
    try:
        return jsontext.loads(ruling.body if ruling.body is not None else "null")
    except jsontext.NotJson as error:
        raise InvalidDecision("decision", str(error), "give a JSON value") from error


def _check_size(ruling: Ruling, limits: Limits) -> None:
    note = ruling.kind in (DecisionKind.DENY, DecisionKind.FAIL, DecisionKind.REVIEW)
    allowed = limits.note_bytes if note else limits.result_bytes
    size = jsontext.size_bytes(ruling.body or "") - (REVIEW_BYTES if ruling.kind is DecisionKind.REVIEW else 0)
    if size > allowed:
        name = "note_bytes" if note else "result_bytes"
        problem = f"it has {size} bytes, {allowed} are allowed"
        raise InvalidDecision("decision", problem, f"shorten it, or raise Limits.{name} of the agent")


def _check_schema(field: str, text: jsontext.JsonText | None, value: Any) -> None:
    problem = schema.problem(text, value)
    if problem is not None:
        raise InvalidDecision(field, problem, "give a value that fits the schema")


def _follow(draft: Draft, spec: AgentSpec | None, call: Call, settlement: Settlement, seq: int) -> None:
    ruling, body, call_id = settlement.ruling, settlement.body, call.tool_call_id
    untrusted = call.executor is Executor.CLIENT
    if call.passes(settlement.suspension, ruling.kind):
        if settlement.suspension.kind is SuspensionKind.REVIEW:
            by_grant = call.approval is Approval.REQUIRED and not call.is_approved()  # a review is no approval
            changes = {"resumed": call.resumed + 1, "decided_at": 0 if by_grant else seq, "suspension": None}
            begin(draft, call.model_copy(update=changes), spec)
        else:
            _let_go(draft, call, spec, seq)
        return
    match ruling.kind:
        case DecisionKind.APPROVE:
            resumed = call.resumed + (call.attempt > 0)  # a run that was asked about at its dispatch had not begun
            approved = call if ruling.body is None else call.edited(seq)
            _let_go(draft, approved.model_copy(update={"resumed": resumed}), spec, seq)
        case DecisionKind.DENY:
            reason = f": {body}" if body else ""
            denied = "the user declined to answer" if call.executor is Executor.HUMAN else "the user denied this call"
            settle(draft, call_id, failure(denied + reason), by=SettledBy.DENY)
        case DecisionKind.ANSWER:
            at_client = untrusted and settlement.suspension.kind is SuspensionKind.CLIENT_EXEC
            envelope = success(result_of(spec, call, settlement), untrusted=at_client)
            settle(
                draft,
                call_id,
                envelope,
                by=SettledBy.ANSWER,
                ok=True,
                untrusted=at_client,
            )
        case DecisionKind.FAIL:
            said = f"the client failed: {body}" if untrusted else str(body)
            envelope = failure(said if body else "it failed, and nobody said why", untrusted=untrusted)
            settle(draft, call_id, envelope, by=SettledBy.FAIL, untrusted=untrusted)
        case DecisionKind.REDISPATCH:
            schedule(draft, call.model_copy(update={"decided_at": call.decided_at or seq}))
        case DecisionKind.CANCEL:
            reason = f": {ruling.reason}" if ruling.reason else ""
            stood = call.model_copy(update={"suspension": settlement.suspension})
            settle(draft, call_id, failure(f"{why_cancelled(stood)}{reason}"), by=SettledBy.CANCELLATION)
        case DecisionKind.REVIEW:
            settle(draft, call_id, reviewed(body["verdict"], body["notes"]), by=SettledBy.REVIEW, ok=True)


def _let_go(draft: Draft, call: Call, spec: AgentSpec | None, seq: int) -> None:
    """Go on with a call that was approved: by that alone, unless those who may decide it have let it go by a grant alone."""
    stands = draft.state.calls.of(call.tool_call_id)
    approved = call.model_copy(update={"fulfilled": None if stands is None else stands.fulfilled})
    changes = {"decided_at": seq if approved.is_approved() else 0, "held_at": 0, "suspension": None}
    go_on(draft, call.model_copy(update=changes), spec)


def result_of(spec: AgentSpec | None, call: Call, settlement: Settlement) -> jsontext.JsonText:
    """The JSON text of the result that an answer is: that of questions has the answers to all of them, defaults included."""
    if tool_of(spec, call).questions and settlement.suspension.kind is SuspensionKind.ELICITATION:
        return jsontext.dumps({"answers": settlement.body})
    return settlement.ruling.body or "null"
