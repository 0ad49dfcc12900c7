"""What those who may decide a suspended call tell each other: who takes it on, and comments. It settles nothing."""

from holdfast.errors import InvalidInput, NotPermitted, StaleCall, StaleReason

from .calls import Suspension
from .commands import Assign, Comment
from .events import CallAssigned, CallCommented
from .idempotency import suspension_key
from .ids import check_request_id, payload_digest
from .judgement import Draft, Judgement, Receipt
from .principal import is_name
from .repeats import request_again
from .state import State
from .words import check_words

MOST_NOTES = 64
"""With how many votes, assignments and comments a suspension takes no more of the latter two: their places stand in the state.
Votes are always taken, and by `MOST_VOTES` they settle it."""


def duplicate(state: State, command: Assign | Comment) -> Judgement | None:
    """The first receipt, if this very request was accepted before.

    Raises:
        InvalidInput: The request id was used for something else.
    """
    said = command.to if isinstance(command, Assign) else command.text
    return request_again(state, command, payload_digest(command.kind, command.suspension_id, said))


def note(state: State, command: Assign | Comment) -> Judgement:
    """Keep who takes a suspended call on, or a comment on it.

    Raises:
        StaleCall: The suspension is unknown, settled, expired, cancelled or superseded.
        NotPermitted: Whoever asks may not decide the call.
        InvalidInput: The name, the text or the request id cannot be used, or the suspension has too many notes.
    """
    check_request_id("request_id", command.request_id, InvalidInput)
    suspension = _open(state, command)
    about = {
        "at": command.now,
        "tool_call_id": command.tool_call_id,
        "suspension_id": command.suspension_id,
        "request_id": command.request_id,
        "principal": command.principal,
        "noted": suspension.notes,
    }
    draft = Draft(state, command.now, command.trace, salt=command.salt)
    if isinstance(command, Assign):
        _check_name(command.to)
        seq = draft.emit(CallAssigned(to=command.to, **about))
    else:
        check_words(command.text, command.spec, "text", InvalidInput)
        if not command.text.strip():
            raise InvalidInput("text", "it is empty", "write something, or leave it")
        seq = draft.emit(CallCommented(text=command.text, **about))
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


def _check_name(name: str) -> None:
    if name and not is_name(name):
        raise InvalidInput("to", f"{name!a:.60} is no name", "give the id of a principal, or leave it empty")
