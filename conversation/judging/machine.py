"""The machine: three pure functions, `decide`, `evolve` and `outstanding`.

`decide` judges a command, `evolve` folds an event, `outstanding` lists the work that must be under way. None of them uses a
clock, I/O or Ray; a live and a recovered conversation take the same path through them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.conversation.ids import check_request_id
from holdfast.conversation.log.fold import evolve
from holdfast.conversation.log.work import effect_of, outstanding
from holdfast.conversation.records import commands as asked
from holdfast.conversation.records.command_base import Numbered, Outcome, Request
from holdfast.conversation.records.commands import Command, Decided, Resolve, ResolveMany, decision_digest
from holdfast.conversation.records.idempotency import IdempotencyRecord, request_digest
from holdfast.conversation.records.input_commands import CompactNow, Interrupt, Reschedule, Send, Start, Withdraw
from holdfast.conversation.records.state import State
from holdfast.errors import ConversationExists, InvalidDecision, InvalidInput, InvalidMessage

from . import (
    beginning,
    cancelling,
    clients,
    compacting,
    deadlines,
    deciding,
    delegating,
    granting,
    messages,
    noting,
    outcomes,
    telling,
    unattended,
)
from .judgement import Cancelled, ClaimReceipt, Interrupted, Judgement, Receipt, Receipts
from .table import LATE, TABLE, Handled, Ignored, Refused

__all__ = ["decide", "effect_of", "evolve", "outstanding"]


JUDGES: Mapping[type, Callable[[State, Any], Judgement]] = {
    Start: messages.start,
    Send: messages.send,
    Interrupt: messages.interrupt,
    Withdraw: messages.withdraw,
    Reschedule: messages.reschedule,
    CompactNow: compacting.requested,
    asked.Resolve: deciding.resolve,
    asked.ResolveMany: deciding.resolve_many,
    asked.Assign: noting.note,
    asked.Comment: noting.note,
    asked.Snooze: noting.snooze,
    asked.Claim: clients.claim,
    asked.GiveBack: clients.give_back,
    asked.EscalateCall: deadlines.escalate,
    asked.Tell: telling.tell,
    asked.CancelTurn: cancelling.cancel,
    asked.CancelPending: cancelling.cancel_pending,
    asked.Revoke: granting.revoke,
    asked.RevokeGiven: granting.revoke_given,
    asked.End: cancelling.end,
    asked.TurnPrepared: beginning.turn_prepared,
    asked.ModelReplied: outcomes.model_replied,
    asked.ModelFailed: outcomes.model_failed,
    asked.Summarized: compacting.summarized,
    asked.RunFinished: outcomes.run_over,
    asked.RunSuspended: outcomes.run_over,
    asked.RunRuled: outcomes.run_over,
    asked.RunLost: outcomes.run_over,
    asked.Wake: deadlines.wake,
}
"""The judge of each command that the table handles."""

_NAMING = (
    Withdraw,
    Reschedule,
    asked.Assign,
    asked.Comment,
    asked.Snooze,
    asked.Claim,
    asked.GiveBack,
    asked.EscalateCall,
    asked.Revoke,
    asked.RevokeGiven,
)
"""The requests that are told apart by what they name."""
_ENDING = (InvalidInput, "request_id", "another request", "use a new id for each request")
_ELSE = (InvalidInput, "request_id", "something else", "use a new request_id for a new request")
_USED: Mapping[type[Request], tuple[type[InvalidInput], str, str, str]] = {
    Send: (InvalidMessage, "message_id", "another message", "use a new message_id for a new message"),
    Interrupt: (InvalidInput, "request_id", "another message or request", "use a new request_id for a new interruption"),
    Resolve: (InvalidDecision, "decision_id", "another decision", "use a new decision_id for a new decision"),
    ResolveMany: (InvalidDecision, "decision_id", "other decisions", "use a new decision_id for new decisions"),
    **dict.fromkeys((asked.CancelTurn, asked.CancelPending, asked.End, CompactNow), _ENDING),
    **dict.fromkeys(_NAMING, _ELSE),
}
"""Per request: the error for an id that was used before, the id's name, its other use, and the fix."""


def decide(state: State, command: Command) -> Judgement:
    """Judge a command against the state.

    Pure: time, ids, randomness and what the store knows of an id arrive inside the command. Order of judgement: duplicate,
    conversation, suspension, content.

    Raises:
        StaleCall: The suspension is unknown, settled, expired, cancelled or superseded.
        NotPermitted: The caller may not decide this call, or take it on.
        AlreadyVoted: Several people must agree to the call, and this person already has.
        InvalidDecision: The decision does not fit, or its id was used for another decision.
        BatchRefused: One of several decisions cannot be taken, so none was.
        InvalidMessage: The message cannot be used, or its id was used for another message.
        InvalidInput: The conversation or request id cannot be used, or the request id was used for another request.
        ConversationBusy: A turn goes on or waits, and the message was to be refused then.
        NotQueued: The message does not wait for its turn any more.
        QueueFull: As many messages are queued as the limits allow.
        ConversationNotFound: The conversation was never started.
        ConversationExists: The conversation was started before, with another message, agent or context.
        ConversationEnded: The conversation has ended.
        TurnNotFound: The conversation has had no turn of the id that a cancellation names.
    """
    if isinstance(command, Request):
        before = repeated(state, command)
        if before is not None:
            return before
    elif isinstance(command, Outcome) and effect_of(state, command.effect_id) is None:
        return Judgement(ignored=LATE.why)
    match TABLE[state.status][command.kind]:
        case Refused(error):
            raise error(state.conversation_id)
        case Ignored(why):
            return Judgement(ignored=why)
        case Handled():
            if isinstance(command, Numbered):
                check_request_id("request_id", command.request_id, InvalidInput)
            judgement = JUDGES[type(command)](state, command)
            if judgement.state is not None and not judgement.state.attended:
                judgement = unattended.followed(state, command, judgement)
            is_child = judgement.state is not None and judgement.state.parent is not None
            return delegating.ended(command, judgement) if is_child else judgement


def repeated(state: State, command: Request) -> Judgement | None:
    """The first reply, if this very request was accepted before; raises if its id was used for another request."""
    known = [command.known.get(key) for key in command.lookups()]
    if not any(known):
        return None
    parts: Sequence[Request | Decided] = (command,) * len(known)
    if isinstance(command, ResolveMany):
        parts = command.decisions
    for part, record in zip(parts, known, strict=True):
        if record is None or not _is_same(state, command, part, record):
            if isinstance(command, Start):
                raise ConversationExists(state.conversation_id)
            error, field, what, fix = _USED[type(command)]
            raise error(field, f"{getattr(part, field)!r} was already used for {what}", fix)
    records = [record for record in known if record is not None]
    if isinstance(command, ResolveMany):
        return Judgement(reply=Receipts(receipts=tuple(_receipt(state, record) for record in records)))
    before = records[0]
    if isinstance(command, Interrupt):
        about: dict[str, Any] = {"seq": records[-1].seq, "accepted_at": before.at, "epoch": before.epoch, "duplicate": True}
        about |= {"turn_id": before.turn_id, "cancelled": before.calls, "superseded": before.messages}
        return Judgement(reply=Interrupted(conversation_id=state.conversation_id, audit_head=before.head, **about))
    if isinstance(command, asked.Claim):
        return Judgement(reply=ClaimReceipt(**vars(_receipt(state, before)), attempt=before.attempt))
    if not isinstance(command, asked.CancelTurn | asked.CancelPending):
        return Judgement(reply=_receipt(state, before))
    about = {"conversation_id": state.conversation_id, "turn_id": before.turn_id, "calls": before.calls}
    return Judgement(reply=Cancelled(**about, duplicate=True, audit_head=before.head))


def _is_same(state: State, command: Request, part: Request | Decided, known: IdempotencyRecord) -> bool:
    match part:
        case Start() | Send() | Interrupt():
            return known.digest == part.digest
        case Resolve() | Decided():
            return known.digest == decision_digest(command, part, known.needed)
        case asked.CancelTurn(turn_id=str() as named) if named != known.turn_id:
            # A cancellation that found nothing cannot have named the current turn: it would have cancelled it.
            return known.digest == part.kind and known.turn_id is None and named != state.present_turn_id
        case Numbered() if isinstance(part, _NAMING):
            return known.digest == request_digest(part.kind, part)
        case asked.CancelTurn() | asked.CancelPending() | asked.End() | CompactNow():
            return known.digest == part.kind
        case _:
            return False


def _receipt(state: State, known: IdempotencyRecord) -> Receipt:
    said = {name: getattr(known, name) for name in ("seq", "settled", "votes", "needed")}
    return Receipt(conversation_id=state.conversation_id, accepted_at=known.at, duplicate=True, audit_head=known.head, **said)
