"""The judgement of the outcome of a beginning: of a turn, or of a summary between turns."""

from typing import Any

from holdfast.conversation.ids import turn_id
from holdfast.conversation.records.commands import TurnPrepared
from holdfast.conversation.records.event_base import FailureReason
from holdfast.conversation.records.events import TurnStarted
from holdfast.conversation.records.state import State
from holdfast.conversation.terms.spec import AgentSpec
from holdfast.conversation.terms.stopping import Then
from holdfast.conversation.text import jsontext

from . import compacting
from .judgement import Draft, Judgement
from .progress import fail
from .table import LATE


def turn_prepared(state: State, command: TurnPrepared) -> Judgement:
    """Begin what the queue begins with, with the spec in force: the turn of a message, or a summary.

    Without a spec, or if a `Budget` of the agent is used up, it fails at once.
    """
    if state.turn is not None or not state.queue:
        return Judgement(ignored=LATE.why)
    draft = Draft(state, command)
    spec = command.spec if command.problem is None else None
    draft.emit(compacting.started(draft, spec, command.code) if state.compacts_next else _turn_started(state, command, spec))
    if spec is None:
        error = jsontext.clean(command.problem or "") or f"no spec of agent {state.agent!r} is stored"
        fail(draft, error, FailureReason.NO_AGENT)
    elif (over := spec.over(state.spent, command.today)) is not None:
        fail(draft, over.said, FailureReason.BUDGET_EXCEEDED, until=over.until)
    return draft.done()


def _turn_started(state: State, command: TurnPrepared, spec: AgentSpec | None) -> TurnStarted:
    return TurnStarted(
        at=command.now,
        turn_id=turn_id(state.turns + 1),
        message_seq=state.queue[0].seq,
        spec_digest=spec.digest if spec is not None else "",
        code=command.code,
        max_model_calls=spec.limits.max_model_calls if spec is not None else 1,
        **_stops(spec, command.now),
        budgets=() if spec is None else spec.budgeted,
        traceparent=command.trace,
    )


def _stops(spec: AgentSpec | None, now: int) -> dict[str, Any]:
    """What the beginning of a turn says of its agent's `Stop`."""
    if spec is None or spec.stop is None:
        return {}
    lasts = spec.stop.timeout_s
    timed = {} if lasts is None else {"ends_at": now + max(round(lasts * 1000), 1), "waits": spec.stop.waits}
    return {"counted": True, "asks": spec.stop.then is Then.ASK, **timed}
