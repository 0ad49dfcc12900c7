"""What those who may decide a suspended call tell each other: who takes it on, and comments. It settles nothing."""

from holdfast.errors import InvalidInput, NotPermitted, StaleCall, StaleReason
from holdfast.visible import without_hidden

from . import jsontext
from .calls import Suspension
from .commands import Assign, Comment
from .events import CallAssigned, CallCommented
from .idempotency import request_key, suspension_key
from .ids import check_request_id, payload_digest
from .judgement import Draft, Judgement, Receipt
from .principal import NAME
from .spec import Limits
from .state import State

MOST_NOTES = 64
"""With how many votes, assignments and comments a suspension takes no more of the latter two: their places stand in the state.
Votes are always taken, and by `MOST_VOTES` they settle it."""


def duplicate(state: State, command: Assign | Comment) -> Judgement | None:
    """The first receipt, if this very request was accepted before.

    Raises:
        InvalidInput: The request id was used for something else.
    """
    known = command.known.get(request_key(command.request_id))
    if known is None:
        return None
    said = command.to if isinstance(command, Assign) else command.text
    if known.digest != payload_digest(command.kind, command.suspension_id, said):
        problem = f"{command.request_id!r:.80} was already used for something else"
        raise InvalidInput("request_id", problem, "use a new request_id for a new request")
    return Judgement(reply=Receipt(conversation_id=state.conversation_id, seq=known.seq, accepted_at=known.at, duplicate=True))


def assign(state: State, command: Assign) -> Judgement:
    """Note who takes a suspended call on.

    Raises:
        StaleCall: The suspension is unknown, settled, expired, cancelled or superseded.
        NotPermitted: Whoever asks may not decide the call.
        InvalidInput: The name or the request id cannot be used, or the suspension has too many notes.
    """
    check_request_id("request_id", command.request_id, InvalidInput)
    suspension = _open(state, command)
    if command.to and (not NAME.fullmatch(command.to) or without_hidden(command.to, lambda _: "") != command.to):
        raise InvalidInput("to", f"{command.to!a:.60} is no name", "give the id of a principal, or leave it empty")
    draft = Draft(state, command.now, command.trace)
    seq = draft.emit(
        CallAssigned(
            at=command.now,
            tool_call_id=command.tool_call_id,
            suspension_id=command.suspension_id,
            to=command.to,
            request_id=command.request_id,
            principal=command.principal,
            noted=suspension.notes,
        )
    )
    return draft.done(Receipt(conversation_id=state.conversation_id, seq=seq, accepted_at=command.now))


def comment(state: State, command: Comment) -> Judgement:
    """Keep a comment on a suspended call.

    Raises:
        StaleCall: The suspension is unknown, settled, expired, cancelled or superseded.
        NotPermitted: Whoever writes may not decide the call.
        InvalidInput: The text or the request id cannot be used, or the suspension has too many notes.
    """
    check_request_id("request_id", command.request_id, InvalidInput)
    suspension = _open(state, command)
    _check_text(command)
    draft = Draft(state, command.now, command.trace)
    seq = draft.emit(
        CallCommented(
            at=command.now,
            tool_call_id=command.tool_call_id,
            suspension_id=command.suspension_id,
            text=command.text,
            request_id=command.request_id,
            principal=command.principal,
            noted=suspension.notes,
        )
    )
    return draft.done(Receipt(conversation_id=state.conversation_id, seq=seq, accepted_at=command.now))


def _open(state: State, command: Assign | Comment) -> Suspension:
    call = state.calls.of(command.tool_call_id)
    if call is not None and call.suspension is not None and call.suspension.suspension_id == command.suspension_id:
        why = None if call.deciders is None else call.deciders.outsider(command.principal)
        if why is not None:
            raise NotPermitted(state.conversation_id, call.tool_call_id, why)
        if len(call.suspension.notes) >= MOST_NOTES:
            field = "to" if isinstance(command, Assign) else "text"
            raise InvalidInput(field, f"the call has {MOST_NOTES} notes already, no more are kept", "decide it")
        return call.suspension
    known = command.known.get(suspension_key(command.suspension_id))
    if known is None or known.tool_call_id != command.tool_call_id:
        raise StaleCall(state.conversation_id, command.tool_call_id, StaleReason.UNKNOWN)
    raise StaleCall(state.conversation_id, command.tool_call_id, known.reason, known.by, known.at)


def _check_text(command: Comment) -> None:
    limits = command.spec.limits if command.spec is not None else Limits()
    try:
        jsontext.check_text(command.text)
    except jsontext.NotJson as error:
        raise InvalidInput("text", str(error), "give text that can be encoded as UTF-8") from error
    size = jsontext.size_bytes(command.text)
    if not command.text.strip() or size > limits.note_bytes:
        problem = f"it has {size} bytes" if command.text.strip() else "it is empty"
        raise InvalidInput("text", problem, f"write 1 to {limits.note_bytes} bytes")
