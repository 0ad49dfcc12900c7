"""The machine: three pure functions, `decide`, `evolve` and `outstanding`.

`decide` judges a command, `evolve` folds an event, `outstanding` says what work must be going on now. None of them knows a
clock, I/O or Ray; a live and a revived conversation take the same path through them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from . import cancelling, deciding, granting, messages, noting, outcomes, unattended
from . import commands as asked
from .calls import Call
from .commands import Command, Outcome, Request
from .effects import BeginTurn, CallModel, Effect, RunTool
from .fold import evolve
from .judgement import Judgement
from .principal import Proof
from .repeats import repeated
from .state import State, Status, Turn
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
"""What judges each command, where the table says that it is handled."""


def decide(state: State, command: Command) -> Judgement:
    """Judge a command against the state.

    Pure: time, ids, randomness and what the store knows of an id arrive inside the command. Order of judgement: duplicate,
    conversation, suspension, content.

    Raises:
        StaleCall: The suspension is unknown, settled, expired, cancelled or superseded.
        NotPermitted: Whoever decides, or takes a call on, is none of those who may.
        AlreadyVoted: Several have to agree to the call, and the same person has already.
        InvalidDecision: The decision does not fit, or its id was used for another decision.
        BatchRefused: One of several decisions cannot be taken, and so none of them was.
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
            return unattended.followed(state, command, JUDGES[type(command)](state, command))


def outstanding(state: State) -> tuple[Effect, ...]:
    """The effects that must be going on now: the turn's beginning, the model call or the runs. For deadlines see `due_at`."""
    if state.ended or state.seq == 0:
        return ()
    turn = state.turn
    if turn is None:
        if not state.queue:
            return ()
        return (BeginTurn(effect_id=f"begin:{state.queue[0]}", message_seq=state.queue[0]),)
    if state.status is Status.GENERATING:
        return (
            CallModel(
                effect_id=turn.model_effect_id,
                spec_digest=turn.spec_digest,
                code=turn.code,
                upto_seq=state.seq,
                message_seq=turn.message_seq,
            ),
        )
    return tuple(_run_tool(state, turn, call) for call in turn.calls.running())


def busy(state: State) -> bool:
    """Whether any effect is outstanding, found without listing the effects."""
    if state.ended or state.seq == 0:
        return False
    if state.turn is None:
        return bool(state.queue)
    return state.turn.calls.any_running or not state.turn.calls.any_awaiting


def effect_of(state: State, effect_id: str) -> Effect | None:
    """The outstanding effect of that id, None if there is none; a run is found without listing the others."""
    if state.turn is not None and state.turn.calls.any_running:
        call = None if state.ended else state.turn.calls.run(effect_id)
        return None if call is None else _run_tool(state, state.turn, call)
    return next((effect for effect in outstanding(state) if effect.effect_id == effect_id), None)


def due_at(state: State) -> int | None:
    """The earliest deadline of an open suspension, in milliseconds UTC; None if no suspension is open."""
    return state.calls.due_at


def _run_tool(state: State, turn: Turn, call: Call) -> RunTool:
    given = [grant for grant in (state.grants if call.grants else ()) if grant.grant_id in call.grants]
    return call.carried(
        RunTool,
        effect_id=call.effect_id,
        spec_digest=turn.spec_digest,
        code=turn.code,
        turn_id=turn.turn_id,
        message_seq=turn.message_seq,
        grants_epoch=state.grants_epoch if call.grants else 0,
        grants_until=_until(state, call),
        granted_at=next((grant.seq for grant in given if grant.grant_id == call.grants[0]), 0),
        givers=tuple((grant.grant_id, grant.by.id) for grant in given if grant.by is not None and grant.by.proof is Proof.KEY),
    )


def _until(state: State, call: Call) -> int | None:
    """When the first of the grants ends by which a call runs, in ms UTC; None where none has an end, 0 where one has ended."""
    standing = {grant.grant_id: grant.ends_at for grant in state.grants} if call.grants else {}
    ends = (standing.get(grant_id, 0) for grant_id in call.grants)
    return min((at for at in ends if at is not None), default=None)
