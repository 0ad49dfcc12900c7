"""Whether a turn is to end by its agent's `Stop`, and by which bound."""

from typing import NamedTuple

from holdfast.conversation.records.event_base import StopReason
from holdfast.conversation.records.state import Turn
from holdfast.conversation.terms.spec import AgentSpec

NOT_RUN = "the turn was stopped ({}): this call did not run"


class Reached(NamedTuple):
    """The bound that is reached, and the words for it."""

    reason: StopReason
    detail: str


def by_answer(turn: Turn, spec: AgentSpec | None) -> Reached | None:
    """The bound that the calls of the turn's last answer reach, before any of them begins."""
    stop = None if spec is None else spec.stop
    if stop is None:
        return None
    if stop.rounds is not None and turn.rounds > stop.rounds:
        return Reached(StopReason.ROUNDS, f"Stop(rounds={stop.rounds})")
    if stop.tokens is not None and turn.tokens >= stop.tokens:
        return Reached(StopReason.TOKENS, f"Stop(tokens={stop.tokens}): {turn.tokens} so far")
    if stop.loop is not None and turn.asked:
        *before, last = (set(one.split()) for one in turn.asked[-stop.loop - 1 :])
        if any(last & one for one in before):
            return Reached(StopReason.LOOP, f"Stop(loop={stop.loop})")
    return None


def by_results(turn: Turn, spec: AgentSpec | None) -> Reached | None:
    """The bound that the results of the turn's last calls reach, before the next model call."""
    stop = None if spec is None else spec.stop
    if stop is None or not turn.rounds:
        return None
    if stop.errors is not None and turn.errors >= stop.errors:
        return Reached(StopReason.ERRORS, f"Stop(errors={stop.errors})")
    if stop.tool is not None and any(call.tool == stop.tool for call in turn.calls):
        return Reached(StopReason.TOOL, f"Stop(tool={stop.tool!r})")
    return None
