"""Ending what waits: by a cancellation, or the conversation's end."""

from holdfast.conversation.ids import is_compaction_id, is_turn_id, turn_id
from holdfast.conversation.records.commands import CancelPending, CancelTurn, End
from holdfast.conversation.records.events import Ended, PendingCancelled, SettledBy, TurnCancelled, TurnStarted
from holdfast.conversation.records.idempotency import IdempotencyRecord, request_key
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.presence import check_client_id
from holdfast.errors import InvalidInput, TurnNotFound

from . import compacting
from .cancelled import why_cancelled
from .judgement import Cancelled, Draft, Judgement, check_words
from .leaving import LEFT, left_behind
from .progress import advance, give_up


def cancel(state: State, command: CancelTurn) -> Judgement:
    """Cancel the current turn, or the one that is about to begin; each open call ends with an error result.

    With a `turn_id`, only that turn is cancelled: a late cancellation never ends a later turn.
    """
    present = state.present_turn_id
    named = command.turn_id or ""
    was = is_turn_id(named, last=state.turns) or is_compaction_id(named, last=state.seq)
    if command.turn_id not in (None, present) and not was:
        raise TurnNotFound(state.conversation_id, command.turn_id or "")
    if present is None or command.turn_id not in (None, present):
        return _nothing_cancelled(state, command)
    draft = _ending(state, command)
    return draft.done(cancel_turn(draft, command.request_id))


def cancel_pending(state: State, command: CancelPending) -> Judgement:
    """Settle each suspension, or each of one kind or client, with an error result; the turn goes on."""
    check_words(command.reason, command.limits.note_bytes, "reason", InvalidInput)
    waiting, reason = state.calls.open(), command.reason
    if command.client_id is not None:
        named, reason = check_client_id(command.client_id), reason or LEFT
        present, now, kinds = command.present or (), command.now, command.kinds
        waiting = left_behind(state, named, command.principal, present, now=now, kinds=kinds)
    wanted = [
        call for call in waiting if call.suspension is not None and command.suspension_kind in (None, call.suspension.kind)
    ]
    if state.turn is None or not wanted:
        return _nothing_cancelled(state, command)
    draft = Draft(state, command)
    for call in wanted:
        give_up(draft, call, why_cancelled(call, reason), by=SettledBy.CANCELLATION, principal=command.principal)
    named, calls = state.turn.turn_id, tuple(call.tool_call_id for call in wanted)
    by = {"request_id": command.request_id, "principal": command.principal}
    seq = draft.emit(PendingCancelled(at=command.now, turn_id=named, calls=calls, **by))
    advance(draft)
    return draft.done(draft.cancelled(seq, named, calls))


def end(state: State, command: End) -> Judgement:
    """End the conversation; open calls are cancelled, queued messages are dropped."""
    draft = _ending(state, command)
    if state.turn is not None:
        cancel_turn(draft, None)
    seq = draft.emit(Ended(at=command.now, request_id=command.request_id, principal=command.principal))
    return draft.done(draft.receipt(seq))


def _ending(state: State, command: CancelTurn | End) -> Draft:
    return Draft(state, command.model_copy(update={"trace": None}))


def _nothing_cancelled(state: State, command: CancelTurn | CancelPending) -> Judgement:
    """The judgement of a cancellation that finds nothing to cancel. It is recorded, so a retry cancels no later work."""
    known = IdempotencyRecord(seq=state.seq, at=command.now, digest=command.kind)
    reply = Cancelled(conversation_id=state.conversation_id)
    return Judgement(reply=reply, passing={request_key(command.request_id): known})


def cancel_turn(draft: Draft, request_id: str | None) -> Cancelled:
    """Cancel the current turn, or the one that is about to begin, with its open calls."""
    state = draft.state
    if state.turn is None:  # the message is accepted, and its turn is still being prepared
        draft.emit(
            compacting.started(draft, None, "")
            if state.compacts_next
            else TurnStarted(
                at=draft.now,
                turn_id=turn_id(state.turns + 1),
                message_seq=state.queue[0].seq,
                spec_digest="",
                code="",
                max_model_calls=1,
            )
        )
    open_calls = draft.state.calls.open()
    for call in open_calls:
        give_up(draft, call, why_cancelled(call), by=SettledBy.CANCELLATION, principal=draft.principal)
    named, calls = draft.state.present_turn_id or "", tuple(call.tool_call_id for call in open_calls)
    by = {"request_id": request_id, "principal": draft.principal}
    seq = draft.emit(TurnCancelled(at=draft.now, turn_id=named, calls=calls, **by))
    return draft.cancelled(seq, named, calls)
