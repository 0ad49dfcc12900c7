"""The fold: how each event changes the state. Recovery is only this."""

from collections.abc import Collection
from operator import attrgetter
from typing import Any, Literal, assert_never

from holdfast.conversation.ids import payload_digest
from holdfast.conversation.records import events
from holdfast.conversation.records.calls import Call, CallStatus, ClientClaim, Snoozed, Suspension, Vote
from holdfast.conversation.records.event_base import ChainLink, OfTurn, Reached, StopReason, Used
from holdfast.conversation.records.events import Event, SettledBy
from holdfast.conversation.records.rounds import NO_CALLS, WaitsFor
from holdfast.conversation.records.state import LastTurn, Queued, State, Turn
from holdfast.conversation.terms.approvers import gave, with_fulfilled
from holdfast.conversation.terms.budget import Per, Spent
from holdfast.conversation.terms.decisions import DecisionKind, SuspensionKind
from holdfast.conversation.terms.money import nanos
from holdfast.conversation.terms.presence import mark_of
from holdfast.conversation.terms.spec import Executor
from holdfast.conversation.terms.stopping import MOST_ANSWERS, MOST_COMPARED

from .auditing import shown_digest

_SERVED: dict[str, object] = {"compacting": 0, "compact_requests": 0}
"""Behind a summary, or its end, nobody waits for one."""


def evolve(state: State, event: Event) -> State:
    """The state after the event, which directly follows everything folded so far."""
    changes: dict[str, object] = {"seq": state.seq + 1, "updated_at": event.at}
    head = event.head if isinstance(event, ChainLink) else ""
    after = _apply(state, event)
    if after.turn is not None and after.turn.ends_at:
        after = _timed(after, after.turn, event.at)
    return after.model_copy(update=changes | {"audit_head": head} if head else changes)


def _timed(state: State, turn: Turn, at: int) -> State:
    """The state with the time of its turn, which stands still while it waits for people, or asks whether it may go on."""
    waits = turn.asking is not None or (not turn.waits and state.waits_for is WaitsFor.PEOPLE)
    if waits == bool(turn.waiting_since):
        return state
    if waits:
        return _with_turn(state, waiting_since=at)
    return _with_turn(state, waiting_since=0, ends_at=turn.ends_at + max(at - turn.waiting_since, 0))


def _apply(state: State, event: Event) -> State:  # noqa: C901, PLR0911, PLR0912 - one case for each event
    match event:
        case events.ConversationStarted():
            about = {"agent": event.agent, "app": event.app, "attended": event.attended, "parent": event.parent}
            return state.model_copy(update={"created_at": event.at, **about})
        case events.MessageAccepted():
            return _message_accepted(state, event)
        case events.InputDue():
            return _due(state, event.message_seqs)
        case events.InputJoined():
            return _joined(state, event.message_seqs)
        case events.InputRescheduled():
            return _rescheduled(state, event)
        case events.InputWithdrawn():
            return _without_input(state, {event.message_seq})
        case events.InputSuperseded():
            return _compaction_over(_without_input(state, set(event.message_seqs))).model_copy(update={"epoch": event.epoch})
        case events.TurnStarted():
            return _turn_started(state, event)
        case events.ModelAnswered():
            return _answered(state, event)
        case events.CompactionRequested():
            return _compaction_requested(state)
        case events.CompactionStarted():
            return _compaction_started(state, event)
        case events.Compacted():
            placed = {"boundary": event.boundary, "compacted_at": state.seq + 1}
            return _compaction_over(_reduced(state, event)).model_copy(update=placed)
        case events.SummaryFailed():
            return _compaction_over(_reduced(state, event))
        case events.ContextOverflowed():
            return _with_turn(state, reduced=_turn(state).reduced + 1, overflowed=True)
        case events.RunScheduled():
            return _run_scheduled(state, event)
        case events.CallHeld():
            return _call_held(state, event)
        case events.CallSuspended():
            return _call_suspended(state, event)
        case events.SuspensionSettled():
            return _suspension_settled(state, event)
        case events.VoteCast():
            by = event.principal
            return _noted(state, event.tool_call_id, Vote(by=by.id, on=event.on, seq=state.seq + 1, proof=by.proof))
        case events.CallAssigned() | events.CallCommented():
            return _noted(state, event.tool_call_id)
        case events.CallSnoozed():
            return _snoozed(state, event)
        case events.CallReminded():
            return _with_suspension(state, event.tool_call_id, remind_at=event.remind_at)
        case events.CallEscalated():
            return _escalated(state, event)
        case events.CallClaimed() | events.CallGivenBack():
            return _claimed(state, event)
        case events.CallResolved():
            return _call_resolved(state, event)
        case events.StopReached():
            reached = Reached(reason=event.reason, detail=event.detail)
            return _with_turn(state, stopping=reached, ends_at=0)  # its last call has the time of any model call
        case events.TurnCompleted():
            return _turn_over(state, event, "completed", reply_seq=event.reply_seq, stopped=event.stopped)
        case events.TurnFailed():
            return _turn_over(state, event, "failed")
        case events.TurnCancelled():
            return _compaction_over(state) if _turn(state).compacts else _turn_over(state, event, "cancelled")
        case events.GrantGiven():
            standing = tuple(grant for grant in state.grants if grant.is_active(event.at))
            return state.model_copy(update={"grants": (*standing, event.grant)})
        case events.GrantRevoked():
            return _without_grants(state, {event.grant_id})
        case events.GivenRevoked():
            return _without_grants(_without_votes(state, event), event.grants)
        case events.PendingCancelled() | events.NothingCancelled():
            return state
        case events.Ended():
            return state.model_copy(update={"ended": True, "queue": (), "delayed": (), **_SERVED})
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


def _message_accepted(state: State, event: events.MessageAccepted) -> State:
    about = {name: getattr(event, name) for name in ("priority", "due_at", "traceparent")}
    message = Queued(seq=state.seq + 1, **about)
    if event.steers:
        return _with_turn(state, steered=(*_turn(state).steered, message))
    return _with_input(state, message)


def _with_input(state: State, message: Queued) -> State:
    """The state with a message behind those before which it does not come: in the queue, or among the delayed ones."""
    order = attrgetter("due_at" if message.due_at else "priority")
    name = "delayed" if message.due_at else "queue"
    return state.model_copy(update={name: tuple(sorted((*getattr(state, name), message), key=order))})


def _without_input(state: State, seqs: Collection[int]) -> State:
    queue, delayed = (tuple(one for one in waiting if one.seq not in seqs) for waiting in (state.queue, state.delayed))
    state = state.model_copy(update={"queue": queue, "delayed": delayed})
    if state.turn is None or not state.turn.steered:
        return state
    return _with_turn(state, steered=tuple(one for one in state.turn.steered if one.seq not in seqs))


def _due(state: State, seqs: Collection[int]) -> State:
    for message in [one for one in state.delayed if one.seq in seqs]:
        state = _with_input(_without_input(state, {message.seq}), message.model_copy(update={"due_at": 0}))
    return state


def _joined(state: State, seqs: tuple[int, ...]) -> State:
    return _with_turn(_without_input(state, seqs), joined=(*_turn(state).joined, *seqs))


def _rescheduled(state: State, event: events.InputRescheduled) -> State:
    message = next(one for one in state.waiting if one.seq == event.message_seq)
    changes = {"due_at": event.due_at, "priority": event.priority}
    return _with_input(_without_input(state, {message.seq}), message.model_copy(update=changes))


def _turn_started(state: State, event: events.TurnStarted) -> State:
    lasts_ms = event.ends_at - event.at if event.asks and event.ends_at else 0
    began_at = event.at if event.counted else 0
    turn = Turn(**event.model_dump(exclude={"kind", "at"}), began_at=began_at, lasts_ms=lasts_ms)
    queue = tuple(one for one in state.queue if one.seq != event.message_seq)
    return state.model_copy(update={"turn": turn, "turns": state.turns + 1, "queue": queue})


def _compaction_requested(state: State) -> State:
    """The state in which a summary waits; a further request is served with the one that waits or is under way."""
    if not state.compacting:
        seq = state.seq + 1
        state = _with_input(state, Queued(seq=seq, priority=0)).model_copy(update={"compacting": seq})
    return state.model_copy(update={"compact_requests": state.compact_requests + 1})


def _compaction_started(state: State, event: events.CompactionStarted) -> State:
    said = event.model_dump(include={"turn_id", "spec_digest", "code", "traceparent", "budgets"})
    turn = Turn(**said, message_seq=event.requested_at, max_model_calls=1, compacts=True)
    return _without_input(state, {event.requested_at}).model_copy(update={"turn": turn})


def _compaction_over(state: State) -> State:
    """The state in which no summary is asked for; what went on for that alone is over, and the last turn stays what it was."""
    if state.compacting:
        state = _without_input(state, {state.compacting}).model_copy(update=_SERVED)
    return state.model_copy(update={"turn": None}) if state.turn is not None and state.turn.compacts else state


def _turn_over(state: State, event: OfTurn, outcome: Literal["completed", "failed", "cancelled"], **more: Any) -> State:
    last = LastTurn(turn_id=event.turn_id, outcome=outcome, seq=state.seq + 1, **more)
    steered = _turn(state).steered
    state = state.model_copy(update={"turn": None, "last": last})
    for message in steered:  # it waits for a turn of its own
        state = _with_input(state, message)
    return state


def _answered(state: State, event: events.ModelAnswered) -> State:
    turn = _turn(state)
    changes: dict[str, Any] = {"model_calls": turn.model_calls + 1, "answered_at": state.seq + 1, "calls": NO_CALLS}
    changes["reduced"] = 0
    cut = bool(event.calls) and event.finish_reason == StopReason.LENGTH and event.misfit is None
    changes["cut"] = turn.cut + 1 if cut else 0
    if event.misfit is not None:
        changes["misfits"] = turn.misfits + 1
    if turn.counted and event.calls and event.misfit is None and not event.shaped:
        asked = " ".join(payload_digest("call", call.name, call.arguments)[:16] for call in event.calls[:MOST_COMPARED])
        changes |= {"rounds": turn.rounds + 1, "asked": (*turn.asked, asked)[-MOST_ANSWERS - 1 :]}
    return _with_turn(_used(state, event), **changes)


def _reduced(state: State, event: Used) -> State:
    turn = _turn(state)
    return _with_turn(_used(state, event), reduced=turn.reduced + 1)


def _used(state: State, event: events.ModelAnswered | Used) -> State:
    """The state with what a model call has used, where that is counted."""
    turn = _turn(state)
    if not turn.budgets and not turn.counted:
        return state
    used = spent_by(event)
    if Per.CONVERSATION in turn.budgets:
        state = state.model_copy(update={"spent": state.spent + used})
    if not turn.counted:
        return state
    return _with_turn(state, tokens=turn.tokens + used.tokens, nano_usd=turn.nano_usd + used.nano_usd)


def spent_by(event: events.ModelAnswered | Used) -> Spent:
    """What a model call has used, as far as that is known."""
    tokens = (event.input_tokens or 0) + (event.output_tokens or 0)
    return Spent(tokens=max(tokens, 0), nano_usd=nanos(event.cost_usd))


def _run_scheduled(state: State, event: events.RunScheduled) -> State:
    before = _turn(state).call(event.tool_call_id)
    if before is None:
        return _with_call(state, event.carried(Call, status=CallStatus.RUNNING))
    changed = ("attempt", "arguments_at", "resumed", "decided_at", "rule", "targets", "grants", "approvers")
    changes = {name: getattr(event, name) for name in changed} | {"status": CallStatus.RUNNING, "suspension": None}
    return _with_call(state, before.model_copy(update=changes))


def _call_held(state: State, event: events.CallHeld) -> State:
    kept = _kept(_turn(state).call(event.tool_call_id))
    return _with_call(_delegating(state, event), event.carried(Call, status=CallStatus.HELD, held_at=state.seq + 1, **kept))


def _kept(before: Call | None) -> dict[str, Any]:
    """The fields that a call keeps when it is held or suspended again, besides those of the event."""
    names = () if before is None else ("attempt", "suspensions", "fulfilled", "passed_at", "claims")
    return {name: getattr(before, name) for name in names}


def _call_suspended(state: State, event: events.CallSuspended) -> State:
    before = _turn(state).call(event.tool_call_id)
    approvers = before.approvers if before is not None and before.arguments_at == event.arguments_at else event.approvers
    own = event.approvers != approvers
    suspension = event.carried(
        Suspension,
        kind=event.suspension_kind,
        seq=state.seq + 1,
        created_at=event.at,
        approvers=event.approvers if own else None,
        own=own,
        shown=shown_digest(event),
        staged=event.on_timeout is not None,
    )
    kept = _kept(before)
    if before is not None:
        kept["resumed"] = before.resumed
        kept["decided_at"] = 0 if event.suspension_kind is SuspensionKind.APPROVAL else before.decided_at
    kept["suspensions"] = kept.get("suspensions", 0) + 1
    if event.reached is not None:
        state = _with_turn(state, asking=event.reached, questions=_turn(state).questions + 1)
    about = {"status": CallStatus.AWAITING, "suspension": suspension, "approvers": approvers, "grants": ()}
    return _with_call(_traced(_delegating(state, event), event.traceparent), event.carried(Call, **about, **kept))


def _delegating(state: State, event: events.CallHeld | events.CallSuspended) -> State:
    """The state after a call was taken up, with the conversations that it is given."""
    turn = _turn(state)
    if event.executor is not Executor.AGENT or turn.call(event.tool_call_id) is not None:
        return state
    return _with_turn(state, delegated=turn.delegated + 1 + event.share)


def _noted(state: State, tool_call_id: str, vote: Vote | None = None) -> State:
    _, before = _suspended(state, tool_call_id)
    votes = before.votes if vote is None else (*before.votes, vote)
    return _with_suspension(state, tool_call_id, votes=votes, notes=(*before.notes, state.seq + 1))


def _snoozed(state: State, event: events.CallSnoozed) -> State:
    _, before = _suspended(state, event.tool_call_id)
    by = "" if event.principal is None else event.principal.mark
    kept = tuple(one for one in before.snoozed if one.by != by and one.until > event.at)
    added = (Snoozed(by=by, until=event.until, seq=state.seq + 1),) if event.until > event.at else ()
    over = {one.seq for one in before.snoozed} - {one.seq for one in kept}
    notes = (*(seq for seq in before.notes if seq not in over), *(one.seq for one in added))
    return _with_suspension(state, event.tool_call_id, snoozed=(*kept, *added), snoozes=before.snoozes + 1, notes=notes)


def _escalated(state: State, event: events.CallEscalated) -> State:
    _, before = _suspended(state, event.tool_call_id)
    changes = {
        **{name: getattr(event, name) for name in ("approvers", "stage", "expires_at", "remind_at")},
        "own": True,
        "stage_at": event.at,
        "replaced": before.replaced if before.stage_at > before.created_at or not before.own else before.approvers,
        "votes": (),
        "notes": (*before.notes, state.seq + 1),
    }
    return _with_suspension(state, event.tool_call_id, **changes)


def _claimed(state: State, event: events.CallClaimed | events.CallGivenBack) -> State:
    call, before = _suspended(state, event.tool_call_id)
    claim = None
    if isinstance(event, events.CallClaimed):
        claim = ClientClaim(client_id=event.client_id, by=mark_of(event.principal), at=event.at, on_detach=event.on_detach)
    changes: dict[str, object] = {"claim": claim, "claimed_at": state.seq + 1}
    changes |= {"expires_at": event.expires_at, "look_at": event.look_at}
    changes["notes"] = (*(seq for seq in before.notes if seq != before.claimed_at), state.seq + 1)
    changed = {"suspension": before.model_copy(update=changes), "claims": event.attempt}
    return _with_call(state, call.model_copy(update=changed))


def _suspended(state: State, tool_call_id: str) -> tuple[Call, Suspension]:
    call = _turn(state).call(tool_call_id)
    if call is None or call.suspension is None:
        raise ValueError(f"conversation {state.conversation_id!r}: call {tool_call_id!r} is not suspended")
    return call, call.suspension


def _with_suspension(state: State, tool_call_id: str, **changes: object) -> State:
    call, before = _suspended(state, tool_call_id)
    return _with_call(state, call.model_copy(update={"suspension": before.model_copy(update=changes)}))


def _without_grants(state: State, grant_ids: Collection[str]) -> State:
    if not grant_ids:
        return state
    kept = tuple(grant for grant in state.grants if grant.grant_id not in grant_ids)
    return state.model_copy(update={"grants": kept, "grants_epoch": state.grants_epoch + 1})


def _without_votes(state: State, event: events.GivenRevoked) -> State:
    named = {vote.suspension_id for vote in event.votes}
    for call in state.calls.awaiting() if named else ():
        before = call.suspension
        if before is not None and before.suspension_id in named:
            kept = tuple(vote for vote in before.votes if not gave(vote.by, vote.proof, event.by, event.proof))
            changes = {"votes": kept, "notes": (*before.notes, state.seq + 1)}
            state = _with_call(state, call.model_copy(update={"suspension": before.model_copy(update=changes)}))
    return state


def _suspension_settled(state: State, event: events.SuspensionSettled) -> State:
    call = _turn(state).call(event.tool_call_id)
    if call is None:
        raise ValueError(f"conversation {state.conversation_id!r}: no call {event.tool_call_id!r} to settle")
    if call.suspension is not None and call.suspension.kind is SuspensionKind.LIMIT:
        return _limit_settled(state, call, event)
    # The same append holds the event that says what follows: a run, a second suspension or a result.
    changes = {"suspension": None} | _said(call, event, state.seq + 1)
    return _with_call(_traced(state, event.traceparent), call.model_copy(update=changes))


def _limit_settled(state: State, call: Call, event: events.SuspensionSettled) -> State:
    """The state with a turn that may go on for as much again; or whose bound stands, and ends it in the same append."""
    extended = event.decision is DecisionKind.APPROVE
    status = CallStatus.RESOLVED if extended else CallStatus.ERRORED
    state = _with_call(_traced(state, event.traceparent), call.model_copy(update={"status": status, "suspension": None}))
    return _with_turn(state, asking=None, **_extended(_turn(state), event.at)) if extended else state


def _extended(turn: Turn, at: int) -> dict[str, object]:
    """The changes by which the bound that a turn asks about counts anew. The calls that wait for that count already."""
    match None if turn.asking is None else turn.asking.reason:
        case StopReason.ROUNDS:
            return {"rounds_from": turn.rounds - 1}
        case StopReason.TOKENS:
            return {"tokens_from": turn.tokens}
        case StopReason.LOOP:
            return {"asked": turn.asked[-1:]}
        case StopReason.ERRORS:
            return {"errors": 0}
        case StopReason.TIMEOUT:
            return {"ends_at": at + turn.lasts_ms, "waiting_since": at if turn.waiting_since else 0}
        case StopReason.COST:
            return {"nano_usd_from": turn.nano_usd}
        case StopReason.TOOL:
            return {"extended_at": turn.answered_at}
        case _:  # it is judged anew with each answer
            return {}


def _said(call: Call, event: events.SuspensionSettled, seq: int) -> dict[str, object]:
    """The changes that a decision makes to its call: who has approved it, and which decision its body is given."""
    if call.suspension is None:
        return {}
    passed = call.passes(call.suspension, event.decision)
    edited = event.decision is DecisionKind.APPROVE and event.body is not None
    found: dict[str, object] = {"passed_at": seq if passed else 0} if passed or edited else {}  # an edit voids earlier reviews
    if event.by is SettledBy.EDIT:  # the others must agree to these arguments, too
        found["fulfilled"] = None
    elif event.decision in (DecisionKind.APPROVE, DecisionKind.REDISPATCH) or (passed and call.undecided):
        before = call.fulfilled if call.fulfilled is not None and not edited else ()  # approvals of other arguments are void
        for terms in (call.deciders, call.replaced):  # others decided in the place of those
            before = before if terms is None else with_fulfilled(before, terms)
        found["fulfilled"] = before
    return found


def _traced(state: State, traceparent: str | None) -> State:
    """The state with this span as the turn's last one, if it is a new one."""
    turn = _turn(state)
    if traceparent is None or traceparent == (turn.latest or turn.traceparent):
        return state
    return _with_turn(state, latest=traceparent)


def _call_resolved(state: State, event: events.CallResolved) -> State:
    status, turn = CallStatus.RESOLVED if event.ok else CallStatus.ERRORED, _turn(state)
    if turn.counted and event.by is not SettledBy.REPLY:
        state = _with_turn(state, errors=0 if event.ok else turn.errors + 1)
    call = turn.call(event.tool_call_id)
    if call is None:  # the call neither ran nor was suspended
        call = Call(tool_call_id=event.tool_call_id, tool="", status=status, arguments_at=turn.answered_at)
    return _with_call(state, call.model_copy(update={"status": status, "suspension": None, "fulfilled": None}))
