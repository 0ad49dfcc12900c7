"""Outstanding work of a state: effects, and the earliest deadline."""

from holdfast.conversation.records.calls import Call
from holdfast.conversation.records.effects import BeginTurn, CallModel, Effect, RunTool
from holdfast.conversation.records.state import State, Status, Turn
from holdfast.conversation.terms.principal import Proof


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
    """The earliest end (ms UTC) of the grants by which a call runs; None if none ends, 0 if one has been ended."""
    standing = {grant.grant_id: grant.ends_at for grant in state.grants} if call.grants else {}
    ends = (standing.get(grant_id, 0) for grant_id in call.grants)
    return min((at for at in ends if at is not None), default=None)
