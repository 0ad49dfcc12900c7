"""The machine: three pure functions, `decide`, `evolve` and `outstanding`.

`decide` judges a command, `evolve` folds an event, `outstanding` lists the work that must be going on now. None of them knows a
clock, I/O or Ray; a live and a revived conversation take the same path through them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.conversation.ids import check_request_id
from holdfast.conversation.log.fold import evolve
from holdfast.conversation.log.work import busy, due_at, effect_of, outstanding
from holdfast.conversation.records import commands as asked
from holdfast.conversation.records.commands import Command, Numbered, Outcome, Request
from holdfast.conversation.records.state import State
from holdfast.errors import InvalidInput

from . import cancelling, deciding, granting, messages, noting, outcomes, unattended
from .judgement import Judgement
from .repeats import repeated
from .table import LATE, TABLE, Handled, Ignored, Refused

__all__ = ["busy", "decide", "due_at", "effect_of", "evolve", "outstanding"]


JUDGES: Mapping[type, Callable[[State, Any], Judgement]] = {
    asked.Start: messages.start,
    asked.Send: messages.send,
    asked.Resolve: deciding.resolve,
    asked.ResolveMany: deciding.resolve_many,
    asked.Assign: noting.note,
    asked.Comment: noting.note,
    asked.CancelTurn: cancelling.cancel,
    asked.CancelPending: cancelling.cancel_pending,
    asked.Revoke: granting.revoke,
    asked.RevokeGiven: granting.revoke_given,
    asked.End: cancelling.end,
    asked.TurnPrepared: outcomes.turn_prepared,
    asked.ModelReplied: outcomes.model_replied,
    asked.ModelFailed: outcomes.model_failed,
    asked.RunFinished: outcomes.run_over,
    asked.RunSuspended: outcomes.run_over,
    asked.RunRuled: outcomes.run_over,
    asked.RunLost: outcomes.run_over,
    asked.Wake: cancelling.wake,
}
"""The judge of each command that the table handles."""


def decide(state: State, command: Command) -> Judgement:
    """Judge a command against the state.

    Pure: time, ids, randomness and what the store knows of an id arrive inside the command. Order of judgement: duplicate,
    conversation, suspension, content.

    Raises:
        StaleCall: The suspension is unknown, settled, expired, cancelled or superseded.
        NotPermitted: The caller may not decide this call, or take it on.
        AlreadyVoted: Several people must agree to the call, and the same person has already.
        InvalidDecision: The decision does not fit, or its id was used for another decision.
        BatchRefused: One of several decisions cannot be taken, so none was.
        InvalidMessage: The message cannot be used, or its id was used for another message.
        InvalidInput: The conversation or request id cannot be used, or the request id was used for another request.
        QueueFull: As many messages are queued as the limits allow.
        ConversationNotFound: The conversation was never started.
        ConversationExists: The conversation was started with something else.
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
            return unattended.followed(state, command, JUDGES[type(command)](state, command))
