"""Notes on a suspended call among its approvers: assignments and comments. They settle nothing."""

from holdfast.conversation.records.calls import Suspension
from holdfast.conversation.records.commands import Assign, Comment
from holdfast.conversation.records.events import CallAssigned, CallCommented
from holdfast.conversation.records.idempotency import suspension_key
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.principal import is_name
from holdfast.errors import InvalidInput, NotPermitted, StaleCall, StaleReason

from .judgement import Judgement
from .progress import Draft, check_words

MOST_NOTES = 64
"""How many votes, assignments and comments a suspension may have before it takes no more assignments and comments: the state
holds the `seq` of each. Votes are always taken; `MOST_VOTES` bounds them."""


def note(state: State, command: Assign | Comment) -> Judgement:
    """Record an assignment of a suspended call, or a comment on it."""
    suspension = _open(state, command)
    about = {name: getattr(command, name) for name in ("tool_call_id", "suspension_id", "request_id", "principal")}
    about |= {"at": command.now, "noted": suspension.notes}
    draft = Draft(state, command)
    if isinstance(command, Assign):
        if command.to and not is_name(command.to):
            raise InvalidInput("to", f"{command.to!a:.60} is no name", "give the id of a principal, or leave it empty")
        seq = draft.emit(CallAssigned(to=command.to, **about))
    else:
        check_words(command.text, command.limits.note_bytes, "text", InvalidInput)
        if not command.text.strip():
            raise InvalidInput("text", "it is empty", "write something, or leave it")
        seq = draft.emit(CallCommented(text=command.text, **about))
    return draft.done(draft.receipt(seq))


def _open(state: State, command: Assign | Comment) -> Suspension:
    call, suspension = state.calls.open_suspension(command.suspension_id) or (None, None)
    if call is not None and suspension is not None and call.tool_call_id == command.tool_call_id:
        why = None if call.deciders is None else call.deciders.outsider(command.principal)
        if why is not None:
            raise NotPermitted(state.conversation_id, call.tool_call_id, why)
        if len(suspension.notes) >= MOST_NOTES:
            field = "to" if isinstance(command, Assign) else "text"
            raise InvalidInput(field, f"the call has {MOST_NOTES} notes already, no more are kept", "decide it")
        return suspension
    known = command.known.get(suspension_key(command.suspension_id))
    if known is None or known.tool_call_id != command.tool_call_id:
        raise StaleCall(state.conversation_id, command.tool_call_id, StaleReason.UNKNOWN)
    raise StaleCall(state.conversation_id, command.tool_call_id, known.reason, known.by, known.at)
