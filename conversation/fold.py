"""The fold: how each event changes the state. Recovery is only this."""

from collections.abc import Collection
from typing import assert_never

from .approvers import gave, with_fulfilled
from .auditing import Audited, shown_digest
from .calls import Call, CallStatus, Suspension, SuspensionKind, Vote
from .decisions import DecisionKind
from .events import (
    CallAssigned,
    CallCommented,
    CallHeld,
    CallResolved,
    CallSuspended,
    ConversationStarted,
    Ended,
    Event,
    GivenRevoked,
    GrantGiven,
    GrantRevoked,
    MessageAccepted,
    ModelAnswered,
    NothingCancelled,
    PendingCancelled,
    RunScheduled,
    SettledBy,
    SuspensionSettled,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    VoteCast,
)
from .round import NO_CALLS
from .spec import Executor
from .state import LastTurn, QueuedTrace, State, Turn


def evolve(state: State, event: Event) -> State:
    """The state after the event, which stands in the log right after everything folded so far."""
    changes: dict[str, object] = {"seq": state.seq + 1, "updated_at": event.at}
    head = event.head if isinstance(event, Audited) else ""
    return _apply(state, event).model_copy(update=changes | {"audit_head": head} if head else changes)


def _apply(state: State, event: Event) -> State:  # noqa: C901, PLR0911, PLR0912 - one case for each event
    match event:
        case ConversationStarted():
            about = {"agent": event.agent, "app": event.app, "attended": event.attended}
            return state.model_copy(update={"created_at": event.at, **about})
        case MessageAccepted():
            return _message_accepted(state, event)
        case TurnStarted():
            return _turn_started(state, event)
        case ModelAnswered():
            return _with_turn(state, model_calls=_turn(state).model_calls + 1, answered_at=state.seq + 1, calls=NO_CALLS)
        case RunScheduled():
            return _run_scheduled(state, event)
        case CallHeld():
            return _call_held(state, event)
        case CallSuspended():
            return _call_suspended(state, event)
        case SuspensionSettled():
            return _suspension_settled(state, event)
        case VoteCast():
            by = event.principal
            return _noted(state, event.tool_call_id, Vote(by=by.id, on=event.on, seq=state.seq + 1, proof=by.proof))
        case CallAssigned() | CallCommented():
            return _noted(state, event.tool_call_id)
        case CallResolved():
            return _call_resolved(state, event)
        case TurnCompleted():
            return _turn_over(
                state,
                LastTurn(turn_id=event.turn_id, outcome="completed", seq=state.seq + 1, reply_seq=event.reply_seq),
            )
        case TurnFailed():
            return _turn_over(state, LastTurn(turn_id=event.turn_id, outcome="failed", seq=state.seq + 1))
        case TurnCancelled():
            return _turn_over(state, LastTurn(turn_id=event.turn_id, outcome="cancelled", seq=state.seq + 1))
        case GrantGiven():
            standing = tuple(grant for grant in state.grants if grant.stands(event.at))
            return state.model_copy(update={"grants": (*standing, event.grant)})
        case GrantRevoked():
            return _without_grants(state, {event.grant_id})
        case GivenRevoked():
            return _without_grants(_without_votes(state, event), event.grants)
        case PendingCancelled() | NothingCancelled():
            return state
        case Ended():
            return state.model_copy(update={"ended": True, "queue": (), "queued_traces": ()})
        case _:
            assert_never(event)


def _turn(state: State) -> Turn:
    if state.turn is None:
        message = f"conversation {state.conversation_id!r}: event {state.seq + 1} belongs to a turn, but none is going on"
        raise ValueError(message)
    return state.turn


def _with_turn(state: State, **changes: object) -> State:
    return state.model_copy(update={"turn": _turn(state).model_copy(update=changes)})


def _with_call(state: State, call: Call) -> State:
    return _with_turn(state, calls=_turn(state).calls.with_call(call))


def _message_accepted(state: State, event: MessageAccepted) -> State:
    queued = state.model_copy(update={"queue": (*state.queue, state.seq + 1)})
    if event.traceparent is None:
        return queued
    came_with = QueuedTrace(seq=state.seq + 1, traceparent=event.traceparent)
    return queued.model_copy(update={"queued_traces": (*state.queued_traces, came_with)})


def _turn_started(state: State, event: TurnStarted) -> State:
    turn = Turn(
        turn_id=event.turn_id,
        message_seq=event.message_seq,
        spec_digest=event.spec_digest,
        code=event.code,
        max_model_calls=event.max_model_calls,
        traceparent=event.traceparent,
    )
    queue = tuple(seq for seq in state.queue if seq != event.message_seq)
    traces = tuple(one for one in state.queued_traces if one.seq != event.message_seq)
    return state.model_copy(update={"turn": turn, "turns": state.turns + 1, "queue": queue, "queued_traces": traces})


def _turn_over(state: State, last: LastTurn) -> State:
    return state.model_copy(update={"turn": None, "last": last})


def _run_scheduled(state: State, event: RunScheduled) -> State:
    call = _turn(state).call(event.tool_call_id)
    changes = {
        "status": CallStatus.RUNNING,
        "attempt": event.attempt,
        "arguments_at": event.arguments_at,
        "suspension": None,
        "resumed": event.resumed,
        "decided_at": event.decided_at,
        "rule": event.rule,
        "targets": event.targets,
        "grants": event.grants,
        "approvers": event.approvers,
    }
    if call is not None:
        return _with_call(state, call.model_copy(update=changes))
    return _with_call(
        state,
        Call(
            tool_call_id=event.tool_call_id,
            tool=event.tool,
            executor=Executor.SERVER,
            approval=event.approval,
            status=CallStatus.RUNNING,
            arguments_at=event.arguments_at,
            attempt=event.attempt,
            on_lost=event.on_lost,
            resumed=event.resumed,
            decided_at=event.decided_at,
            rule=event.rule,
            targets=event.targets,
            grants=event.grants,
            approvers=event.approvers,
        ),
    )


def _call_held(state: State, event: CallHeld) -> State:
    before = _turn(state).call(event.tool_call_id)
    return _with_call(
        state,
        Call(
            tool_call_id=event.tool_call_id,
            tool=event.tool,
            executor=event.executor,
            approval=event.approval,
            status=CallStatus.HELD,
            arguments_at=event.arguments_at,
            attempt=0 if before is None else before.attempt,
            suspensions=0 if before is None else before.suspensions,
            on_lost=event.on_lost,
            resumed=event.resumed,
            decided_at=event.decided_at,
            held_at=state.seq + 1,
            rule=event.rule,
            targets=event.targets,
            approvers=event.approvers,
            fulfilled=None if before is None else before.fulfilled,
            passed_at=0 if before is None else before.passed_at,
        ),
    )


def _call_suspended(state: State, event: CallSuspended) -> State:
    before = _turn(state).call(event.tool_call_id)
    same = before is not None and before.arguments_at == event.arguments_at
    approvers = before.approvers if before is not None and same else event.approvers
    own = event.approvers != approvers
    suspension = Suspension(
        suspension_id=event.suspension_id,
        kind=event.suspension_kind,
        seq=state.seq + 1,
        created_at=event.at,
        expires_at=event.expires_at,
        traceparent=event.traceparent,
        resume=event.resume,
        approvers=event.approvers if own else None,
        own=own,
        shown=shown_digest(event),
    )
    return _with_call(
        _traced(state, event.traceparent),
        Call(
            tool_call_id=event.tool_call_id,
            tool=event.tool,
            executor=event.executor,
            approval=event.approval,
            status=CallStatus.AWAITING,
            arguments_at=event.arguments_at,
            attempt=0 if before is None else before.attempt,
            suspensions=1 if before is None else before.suspensions + 1,
            suspension=suspension,
            on_lost=event.on_lost,
            resumed=0 if before is None else before.resumed,
            decided_at=0 if before is None or event.suspension_kind is SuspensionKind.APPROVAL else before.decided_at,
            rule=event.rule,
            targets=event.targets,
            approvers=approvers,
            fulfilled=None if before is None else before.fulfilled,
            passed_at=0 if before is None else before.passed_at,
        ),
    )


def _noted(state: State, tool_call_id: str, vote: Vote | None = None) -> State:
    """The state after a vote, an assignment or a comment."""
    call = _turn(state).call(tool_call_id)
    if call is None or call.suspension is None:
        message = f"conversation {state.conversation_id!r}: call {tool_call_id!r} is not suspended"
        raise ValueError(message)
    before = call.suspension
    changes = {
        "votes": before.votes if vote is None else (*before.votes, vote),
        "notes": (*before.notes, state.seq + 1),
    }
    return _with_call(state, call.model_copy(update={"suspension": before.model_copy(update=changes)}))


def _without_grants(state: State, grant_ids: Collection[str]) -> State:
    if not grant_ids:
        return state
    kept = tuple(grant for grant in state.grants if grant.grant_id not in grant_ids)
    return state.model_copy(update={"grants": kept, "grants_epoch": state.grants_epoch + 1})


def _without_votes(state: State, event: GivenRevoked) -> State:
    named = {vote.suspension_id for vote in event.votes}
    for call in state.calls.awaiting() if named else ():
        before = call.suspension
        if before is not None and before.suspension_id in named:
            kept = tuple(vote for vote in before.votes if not gave(vote.by, vote.proof, event.by, event.proof))
            changes = {"votes": kept, "notes": (*before.notes, state.seq + 1)}
            state = _with_call(state, call.model_copy(update={"suspension": before.model_copy(update=changes)}))
    return state


def _suspension_settled(state: State, event: SuspensionSettled) -> State:
    call = _turn(state).call(event.tool_call_id)
    if call is None:
        message = f"conversation {state.conversation_id!r}: no call {event.tool_call_id!r} to settle"
        raise ValueError(message)
    # The event that says what follows (a run, a second suspension or a result) stands in the same append.
    changes = {"suspension": None} | _said(call, event, state.seq + 1)
    return _with_call(_traced(state, event.traceparent), call.model_copy(update=changes))


def _said(call: Call, event: SuspensionSettled, seq: int) -> dict[str, object]:
    """What a decision says of the call beside its end: whose word it has, and what its body is given."""
    if call.suspension is None:
        return {}
    passed = call.passes(call.suspension, event.decision)
    edited = event.decision is DecisionKind.APPROVE and event.body is not None
    found: dict[str, object] = {"passed_at": seq if passed else 0} if passed or edited else {}  # a review is of what was shown
    if event.by is SettledBy.EDIT:  # others have to agree to these arguments, too
        found["fulfilled"] = None
    elif event.decision in (DecisionKind.APPROVE, DecisionKind.REDISPATCH) or (passed and call.undecided):
        before = call.fulfilled if call.fulfilled is not None and not edited else ()  # of other arguments it says nothing
        found["fulfilled"] = with_fulfilled(before, call.deciders)
    return found


def _traced(state: State, traceparent: str | None) -> State:
    """The state whose turn was last in this span, if there is one and that is news."""
    turn = _turn(state)
    if traceparent is None or traceparent == (turn.latest or turn.traceparent):
        return state
    return _with_turn(state, latest=traceparent)


def _call_resolved(state: State, event: CallResolved) -> State:
    status = CallStatus.RESOLVED if event.ok else CallStatus.ERRORED
    call = _turn(state).call(event.tool_call_id)
    if call is None:  # the call neither ran nor was suspended
        call = Call(tool_call_id=event.tool_call_id, tool="", status=status, arguments_at=_turn(state).answered_at)
    return _with_call(state, call.model_copy(update={"status": status, "suspension": None, "fulfilled": None}))
