"""Notes on a suspended call among its approvers: assignments and comments. They settle nothing."""

from holdfast.conversation.records.calls import Call, Suspension
from holdfast.conversation.records.commands import Assign, Claim, Comment, EscalateCall, GiveBack, Snooze
from holdfast.conversation.records.events import CallAssigned, CallCommented, CallSnoozed
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.principal import is_name
from holdfast.conversation.terms.stages import LONGEST_S
from holdfast.errors import InvalidInput, NotPermitted

from .deciding import stale
from .judgement import Draft, Judgement, check_words

MOST_NOTES = 64
"""How many votes, assignments, comments and escalations a suspension may have before it takes no more of them from people: the
state holds the `seq` of each. Votes are always taken; `MOST_VOTES` bounds them."""
MOST_SNOOZES = 256
"""How often people may hide a suspended call from their lists, all together: each time is an event of the log."""


def note(state: State, command: Assign | Comment) -> Judgement:
    """Record an assignment of a suspended call, or a comment on it."""
    _, suspension = noted(state, command, "to" if isinstance(command, Assign) else "text")
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


def snooze(state: State, command: Snooze) -> Judgement:
    """Hide a suspended call from the lists of the sender for a while. Its deadline stays."""
    call, suspension = noted(state, command, None)
    if command.principal is None:
        raise InvalidInput("principal", "nobody said whose lists hide it", "use client.acting_as(Principal(...))")
    if not 0 <= command.for_s <= LONGEST_S:
        raise InvalidInput("for_s", f"{command.for_s!r} is no time", f"give 0 to {LONGEST_S} seconds")
    mine = command.principal.mark
    others = [one for one in suspension.snoozed if one.by != mine and one.until > command.now]
    if len(others) >= MOST_NOTES:
        raise InvalidInput("for_s", f"{MOST_NOTES} people have it hidden already", "decide it")
    if suspension.snoozes >= MOST_SNOOZES and not (command.for_s == 0 and any(one.by == mine for one in suspension.snoozed)):
        raise InvalidInput("for_s", f"the call was hidden {MOST_SNOOZES} times already", "decide it")
    check_words(command.reason, command.limits.note_bytes, "reason", InvalidInput)
    draft = Draft(state, command)
    seq = draft.emit(
        CallSnoozed(
            at=command.now,
            tool_call_id=call.tool_call_id,
            suspension_id=suspension.suspension_id,
            request_id=command.request_id,
            principal=command.principal,
            until=command.now + round(command.for_s * 1000),
            for_s=command.for_s,
            reason=command.reason,
            noted=suspension.notes,
        )
    )
    return draft.done(draft.receipt(seq))


def noted(
    state: State,
    command: Assign | Comment | Snooze | Claim | GiveBack | EscalateCall,
    field: str | None,
    *,
    trusted: bool = False,
) -> tuple[Call, Suspension]:
    """The open suspension that a request is about and its call, if the sender is `trusted` or one of its approvers.

    `field` is named if the call has too many notes already; None: the request is none of them.
    """
    call, suspension = state.calls.open_suspension(command.suspension_id) or (None, None)
    if call is not None and suspension is not None and call.tool_call_id == command.tool_call_id:
        why = None if trusted or call.deciders is None else call.deciders.outsider(command.principal)
        if why is not None:
            raise NotPermitted(state.conversation_id, call.tool_call_id, why)
        if field is not None and len(suspension.notes) - len(suspension.snoozed) >= MOST_NOTES:
            raise InvalidInput(field, f"the call has {MOST_NOTES} notes already, no more are kept", "decide it")
        return call, suspension
    raise stale(state, command, command.suspension_id, command.tool_call_id)
