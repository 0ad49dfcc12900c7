"""Repeated requests: a repetition gets the first reply again."""

from collections.abc import Sequence

from holdfast.conversation.ids import payload_digest
from holdfast.conversation.records.commands import (
    Assign,
    CancelPending,
    CancelTurn,
    Comment,
    Decided,
    End,
    Request,
    Resolve,
    ResolveMany,
    Revoke,
    RevokeGiven,
    Send,
    Start,
)
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.text import jsontext
from holdfast.errors import ConversationExists, InvalidDecision, InvalidInput, InvalidMessage

from .judgement import Cancelled, Judgement, Receipt, Receipts

_ENDING = (InvalidInput, "request_id", "another request", "use a new id for each request")
_ELSE = (InvalidInput, "request_id", "something else", "use a new request_id for a new request")
_USED: dict[type[Request], tuple[type[InvalidInput], str, str, str]] = {
    Send: (InvalidMessage, "message_id", "another message", "use a new message_id for a new message"),
    Resolve: (InvalidDecision, "decision_id", "another decision", "use a new decision_id for a new decision"),
    ResolveMany: (InvalidDecision, "decision_id", "other decisions", "use a new decision_id for new decisions"),
    **dict.fromkeys((CancelTurn, CancelPending, End), _ENDING),
    **dict.fromkeys((Assign, Comment, Revoke, RevokeGiven), _ELSE),
}
"""Per request: the error for an id that was used before, the id's name, its other use, and the fix."""


def repeated(state: State, command: Request) -> Judgement | None:
    """The first reply, if this very request was accepted before; raises if its id was used for another request."""
    known = [command.known.get(key) for key in command.lookups()]
    if not any(known):
        return None
    parts: Sequence[Request | Decided] = command.decisions if isinstance(command, ResolveMany) else (command,)
    for part, record in zip(parts, known, strict=True):
        if record is None or not _is_same(state, command, part, record):
            if isinstance(command, Start):
                raise ConversationExists(state.conversation_id)
            error, field, what, fix = _USED[type(command)]
            raise error(field, f"{getattr(part, field)!r} was already used for {what}", fix)
    records = [record for record in known if record is not None]
    if isinstance(command, ResolveMany):
        return Judgement(reply=Receipts(receipts=tuple(_receipt(state, record) for record in records)))
    if not isinstance(command, CancelTurn | CancelPending):
        return Judgement(reply=_receipt(state, records[0]))
    before = records[0]
    return Judgement(
        reply=Cancelled(
            conversation_id=state.conversation_id,
            turn_id=before.turn_id,
            calls=before.calls,
            duplicate=True,
            audit_head=before.head,
        )
    )


def _is_same(state: State, command: Request, part: Request | Decided, known: IdempotencyRecord) -> bool:
    match part:
        case Start():
            digest = start_digest(part)
        case Send():
            digest = send_digest(part)
        case Resolve() | Decided():
            call = part.tool_call_id if isinstance(part, Resolve) else ""
            digest = decision_digest(command, known.needed, call, part.suspension_id, part.ruling)
        case Assign():
            digest = payload_digest("assign", part.suspension_id, part.to)
        case Comment():
            digest = payload_digest("comment", part.suspension_id, part.text)
        case Revoke():
            digest = payload_digest("revoke", part.grant_id, part.reason)
        case RevokeGiven():
            digest = payload_digest("revoke_given", part.by, part.proof or "", part.reason)
        case CancelTurn(turn_id=str() as named) if named != known.turn_id:
            # A cancellation that found nothing cannot have named the current turn: it would have cancelled it.
            return known.digest == part.kind and known.turn_id is None and named != state.present_turn_id
        case CancelTurn() | CancelPending() | End():
            digest = part.kind
        case _:
            return False
    return known.digest == digest


def _receipt(state: State, known: IdempotencyRecord) -> Receipt:
    return Receipt(
        conversation_id=state.conversation_id,
        seq=known.seq,
        accepted_at=known.at,
        duplicate=True,
        settled=known.settled,
        votes=known.votes,
        needed=known.needed,
        audit_head=known.head,
    )


def start_digest(command: Start) -> str:
    """The digest by which two starts count as the same."""
    attended = None if command.attended else "no"
    return payload_digest("start", command.agent, command.text, command.context, attended=attended)


def send_digest(command: Send) -> str:
    """The digest by which two messages count as the same."""
    return payload_digest("send", command.text)


def decision_digest(command: Request, needed: int, tool_call_id: str, suspension_id: str | None, ruling: DecisionRecord) -> str:
    """The digest by which two decisions count as the same; if several people must agree, only those of one person can be."""
    given = "-" if ruling.body is None else "+"
    parts = (tool_call_id, suspension_id or "", ruling.kind, given, ruling.body or "")
    scope = None if ruling.scope is None else jsontext.dumps(ruling.scope.model_dump(mode="json"))
    voter = command.principal.id if needed and command.principal is not None else None
    return payload_digest("resolve", *parts, reason=ruling.reason or None, scope=scope, voter=voter)
