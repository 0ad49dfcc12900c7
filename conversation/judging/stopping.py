"""Whether a turn is to end by its agent's `Stop`, and by which bound."""

from holdfast.conversation.records.event_base import StopReason
from holdfast.conversation.records.state import Reached, Turn
from holdfast.conversation.terms.money import NANOS
from holdfast.conversation.terms.spec import AgentSpec
from holdfast.conversation.terms.stopping import Then
from holdfast.conversation.text import jsontext

NOT_RUN = "the turn was stopped ({}): this call did not run"
WORDLESS = "{}; the model's last words failed: {:.300}"
"""The detail of a turn whose last model call failed."""
CUT_SHORT = "the turn was stopped ({})"
"""Why a call of a turn was cancelled that has gone on for too long."""


def asks_for_last_words(turn: Turn, spec: AgentSpec | None) -> bool:
    """Whether a turn that reaches a bound has one more model call; `Limits.max_model_calls` may leave none."""
    then = Then.END if spec is None or spec.stop is None else spec.stop.then
    return then is Then.LAST_WORDS and turn.model_calls < turn.max_model_calls


def by_answer(turn: Turn, spec: AgentSpec | None, now: int, found: Reached | None = None) -> Reached | None:
    """The bound that the turn reaches with the calls of its last answer, before any of them begins.

    `found` is the one that its worker has found.
    """
    stop = None if spec is None else spec.stop
    if stop is None:
        return None
    if stop.rounds is not None and turn.rounds > stop.rounds:
        return Reached(reason=StopReason.ROUNDS, detail=f"Stop(rounds={stop.rounds})")
    if stop.tokens is not None and turn.tokens >= stop.tokens:
        return Reached(reason=StopReason.TOKENS, detail=f"Stop(tokens={stop.tokens}): {turn.tokens} so far")
    if stop.cost_usd is not None and turn.nano_usd >= round(NANOS * stop.cost_usd):
        detail = f"Stop(cost_usd={stop.cost_usd:.12g}): {turn.nano_usd / NANOS:.12g} so far"
        return Reached(reason=StopReason.COST, detail=detail)
    if stop.loop is not None and turn.asked:
        *before, last = (set(one.split()) for one in turn.asked[-stop.loop - 1 :])
        if any(last & one for one in before):
            return Reached(reason=StopReason.LOOP, detail=f"Stop(loop={stop.loop})")
    if found is not None:
        return found.model_copy(update={"detail": jsontext.clean(found.detail)})
    return by_time(turn, spec, now)


def by_results(turn: Turn, spec: AgentSpec | None, now: int) -> Reached | None:
    """The bound that the turn reaches with the results of its last calls, before the next model call."""
    stop = None if spec is None else spec.stop
    if stop is None:
        return None
    if not turn.rounds:
        return by_time(turn, spec, now)
    if stop.errors is not None and turn.errors >= stop.errors:
        return Reached(reason=StopReason.ERRORS, detail=f"Stop(errors={stop.errors})")
    if stop.tool is not None and any(call.tool == stop.tool for call in turn.calls):
        return Reached(reason=StopReason.TOOL, detail=f"Stop(tool={stop.tool!r})")
    return by_time(turn, spec, now)


def by_time(turn: Turn, spec: AgentSpec | None, now: int) -> Reached | None:
    """The bound of the turn's time, if that is over at `now` (ms UTC)."""
    if not turn.is_overdue(now):
        return None
    stop = None if spec is None else spec.stop
    said = "timeout_s" if stop is None or stop.timeout_s is None else f"timeout_s={stop.timeout_s:.12g}"
    return Reached(reason=StopReason.TIMEOUT, detail=f"Stop({said})")
