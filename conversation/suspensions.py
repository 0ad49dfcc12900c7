"""Judging decisions and deadlines: the two ways a suspension is settled from outside the turn."""

from collections.abc import Mapping
from typing import Any, NoReturn

from holdfast.errors import InvalidDecision, InvalidInput, StaleCall, StaleReason

from . import jsontext, schema
from .calls import ACCEPTED, Call, CallStatus, Suspension, SuspensionKind
from .commands import CancelPending, Resolve, Wake
from .decisions import DecisionKind, Ruling
from .envelope import failure, success
from .events import NothingCancelled, PendingCancelled, SettledBy, SuspensionSettled
from .idempotency import call_key, decision_key, result_key, suspension_key
from .ids import check_request_id, payload_digest
from .judgement import Cancelled, Draft, Judgement, Receipt
from .lifecycle import why_cancelled
from .progress import advance, give_up, newly_traced, schedule, settle, suspend, tool_of
from .spec import Executor, Limits
from .state import State

NO_ANSWER = {
    SuspensionKind.APPROVAL: "nobody approved this call in time: it did not run (the user did not respond)",
    SuspensionKind.ELICITATION: "the user did not respond in time",
    SuspensionKind.CLIENT_EXEC: "the client did not respond in time",
    SuspensionKind.LOST: "outcome unknown: the worker was lost while this call ran, and nobody said in time what became of it",
}
"""The error text that the model reads when a suspension has expired."""


def duplicate(state: State, command: Resolve) -> Judgement | None:
    """The first receipt, if this very decision was accepted before.

    Raises:
        InvalidDecision: The decision id was used for another decision.
    """
    known = command.known.get(decision_key(command.decision_id))
    if known is None:
        return None
    if known.digest != _digest(command):
        problem = f"{command.decision_id!r} was already used for another decision"
        raise InvalidDecision("decision_id", problem, "use a new decision_id for a new decision")
    return Judgement(reply=Receipt(conversation_id=state.conversation_id, seq=known.seq, accepted_at=known.at, duplicate=True))


def resolve(state: State, command: Resolve) -> Judgement:
    """Settle the suspension that the decision was meant for, and no other.

    Raises:
        StaleCall: The suspension is unknown, settled, expired, cancelled or superseded.
        InvalidDecision: The decision or its id does not fit, or the decision must name one of several suspensions.
    """
    check_request_id("decision_id", command.decision_id, InvalidDecision)
    if state.turn is not None and command.spec is not None and command.spec.digest != state.turn.spec_digest:
        message = f"stamped with spec {command.spec.digest}, the turn runs with {state.turn.spec_digest}"
        raise ValueError(message)
    call, suspension = _suspension(state, command)
    body = _content(command, call, suspension)
    draft = Draft(state, command.now, command.trace)
    seq = draft.emit(
        SuspensionSettled(
            at=command.now,
            tool_call_id=call.tool_call_id,
            suspension_id=suspension.suspension_id,
            by=SettledBy(command.ruling.kind.value),
            body=command.ruling.body,
            decision_id=command.decision_id,
            digest=_digest(command),
            decision=command.ruling.kind,
            principal=command.principal,
            traceparent=newly_traced(draft),
        )
    )
    _follow(draft, command, call, seq, body)
    advance(draft)
    return draft.done(Receipt(conversation_id=state.conversation_id, seq=seq, accepted_at=command.now))


def cancel_pending(state: State, command: CancelPending) -> Judgement:
    """Settle each suspension, or each of one kind, with an error result; the turn goes on.

    Raises:
        InvalidInput: The request id has not the form of one, or the reason cannot be used.
    """
    check_request_id("request_id", command.request_id, InvalidInput)
    _check_reason(command)
    wanted = [
        call
        for call in (state.turn.calls.open() if state.turn is not None else ())
        if call.suspension is not None and command.suspension_kind in (None, call.suspension.kind)
    ]
    draft = Draft(state, command.now, command.trace)
    if state.turn is None or not wanted:
        draft.emit(NothingCancelled(at=command.now, request_id=command.request_id, what="cancel_pending"))
        return draft.done(Cancelled(conversation_id=state.conversation_id))
    for call in wanted:
        why = f"{why_cancelled(call)}: {command.reason}" if command.reason else why_cancelled(call)
        give_up(draft, call, failure(why), by=SettledBy.CANCELLATION, principal=command.principal)
    turn_id, calls = state.turn.turn_id, tuple(call.tool_call_id for call in wanted)
    draft.emit(
        PendingCancelled(
            at=command.now, turn_id=turn_id, calls=calls, request_id=command.request_id, principal=command.principal
        )
    )
    advance(draft)
    return draft.done(Cancelled(conversation_id=state.conversation_id, turn_id=turn_id, calls=calls))


def _check_reason(command: CancelPending) -> None:
    allowed = (command.spec.limits if command.spec is not None else Limits()).note_bytes
    try:
        jsontext.check_text(command.reason)
    except jsontext.NotJson as error:
        raise InvalidInput("reason", str(error), "give text that can be encoded as UTF-8") from error
    size = jsontext.size_bytes(command.reason)
    if size > allowed:
        raise InvalidInput("reason", f"it has {size} bytes, {allowed} are allowed", "shorten it")


def wake(state: State, command: Wake) -> Judgement:
    """Settle each suspension whose deadline has passed; its call ends with an error that the model can recover from."""
    draft = Draft(state, command.now, command.trace)
    for call in state.calls.due(command.now):
        if call.suspension is not None:
            give_up(draft, call, failure(NO_ANSWER[call.suspension.kind]), by=SettledBy.EXPIRY)
    if not draft.events:
        return Judgement(ignored="nothing is due")
    advance(draft)
    return draft.done()


def _digest(command: Resolve) -> str:
    ruling = command.ruling
    edited = "-" if ruling.body is None else "+"
    return payload_digest("resolve", command.tool_call_id, command.suspension_id or "", ruling.kind, edited, ruling.body or "")


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


def _content(command: Resolve, call: Call, suspension: Suspension) -> Any:
    """The decision's body as a value, judged against the suspension's kind, the limits and the stored spec's schemas."""
    ruling = command.ruling
    accepted = ACCEPTED[suspension.kind]
    if ruling.kind not in accepted:
        takes = " or ".join(kind.value for kind in accepted)
        problem = f"{ruling.kind.value} does not settle a call that waits for {suspension.kind.value}"
        raise InvalidDecision("decision", problem, f"decide {takes}")
    if ruling.body is None:
        return None
    _check_size(ruling, command.spec.limits if command.spec is not None else Limits())
    body = _parsed(ruling)
    tool = tool_of(command.spec, call)
    match ruling.kind:
        case DecisionKind.APPROVE:
            if not isinstance(body, Mapping):
                problem = f"{type(body).__name__} is not a JSON object"
                raise InvalidDecision("decision.arguments", problem, "give an object, or leave it out")
            _check_schema("decision.arguments", tool.parameters, body)
        case DecisionKind.ANSWER:
            _check_schema("decision.value", tool.response_schema, body)
        case DecisionKind.DENY | DecisionKind.FAIL:
            if not isinstance(body, str):
                problem = f"{type(body).__name__} is not a string"
                raise InvalidDecision("decision", problem, "say why in a string")
    return body


def _parsed(ruling: Ruling) -> Any:
    try:
        return jsontext.loads(ruling.body if ruling.body is not None else "null")
    except jsontext.NotJson as error:
        raise InvalidDecision("decision", str(error), "give a JSON value") from error


def _check_size(ruling: Ruling, limits: Limits) -> None:
    note = ruling.kind in (DecisionKind.DENY, DecisionKind.FAIL)
    allowed = limits.note_bytes if note else limits.result_bytes
    size = jsontext.size_bytes(ruling.body or "")
    if size > allowed:
        name = "note_bytes" if note else "result_bytes"
        problem = f"it has {size} bytes, {allowed} are allowed"
        raise InvalidDecision("decision", problem, f"shorten it, or raise Limits.{name} of the agent")


def _check_schema(field: str, text: jsontext.JsonText | None, value: Any) -> None:
    problem = schema.problem(text, value)
    if problem is not None:
        raise InvalidDecision(field, problem, "give a value that fits the schema")


def _follow(draft: Draft, command: Resolve, call: Call, seq: int, body: Any) -> None:
    match command.ruling.kind:
        case DecisionKind.APPROVE:
            _approved(draft, command, call, call.arguments_at if command.ruling.body is None else seq)
        case DecisionKind.DENY:
            reason = f": {body}" if body else ""
            denied = "the user declined to answer" if call.executor is Executor.HUMAN else "the user denied this call"
            settle(draft, call.tool_call_id, failure(denied + reason), by=SettledBy.DENY)
        case DecisionKind.ANSWER:
            untrusted = call.executor is Executor.CLIENT
            content = success(command.ruling.body or "null", untrusted=untrusted)
            settle(draft, call.tool_call_id, content, by=SettledBy.ANSWER, ok=True, untrusted=untrusted)
        case DecisionKind.FAIL:
            untrusted = call.executor is Executor.CLIENT
            said = f"the client failed: {body}" if untrusted else str(body)
            content = failure(said if body else "it failed, and nobody said why", untrusted=untrusted)
            settle(draft, call.tool_call_id, content, by=SettledBy.FAIL, untrusted=untrusted)
        case DecisionKind.REDISPATCH:
            schedule(draft, call, attempt=call.attempt + 1, arguments_at=call.arguments_at)


def _approved(draft: Draft, command: Resolve, call: Call, arguments_at: int) -> None:
    if call.executor is Executor.CLIENT:
        suspend(
            draft,
            call=call.model_copy(update={"arguments_at": arguments_at}),
            tool=tool_of(command.spec, call),
            spec=command.spec,
            kind=SuspensionKind.CLIENT_EXEC,
            arguments=command.ruling.body or f"@{arguments_at}",
            prompt=None,
        )
        return
    schedule(draft, call, attempt=1, arguments_at=arguments_at)
