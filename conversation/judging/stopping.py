"""Whether a turn is to end by its agent's `Stop`, and by which bound."""

from holdfast.conversation.records.event_base import Reached, StopReason
from holdfast.conversation.records.state import Turn
from holdfast.conversation.terms.money import NANOS
from holdfast.conversation.terms.spec import AgentSpec
from holdfast.conversation.terms.stopping import Then
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.jsontext import JsonText

NOT_RUN = "the turn was stopped ({}): this call did not run"
WORDLESS = "{}; the model's last words failed: {:.300}"
"""The detail of a turn whose last model call failed."""
CUT_SHORT = "the turn was stopped ({})"
"""Why a call of a turn was cancelled that has gone on for too long."""
MAY_GO_ON = "The turn has reached {:.300}. May it go on for as much again?"
"""The question of a turn that asks first."""
AGAIN = {
    StopReason.TIMEOUT: "timeout_s",
    StopReason.COST: "cost_usd",
    **{one: one.value for one in (StopReason.ROUNDS, StopReason.TOKENS, StopReason.ERRORS, StopReason.TOOL, StopReason.LOOP)},
}
"""The field of `Stop` that says by how much an approval extends a bound; the others are judged anew with the next answer."""


def asks_for_last_words(turn: Turn, spec: AgentSpec | None) -> bool:
    """Whether a turn that reaches a bound has one more model call; `Limits.max_model_calls` may leave none."""
    then = Then.END if spec is None or spec.stop is None else spec.stop.then
    return then is Then.LAST_WORDS and turn.model_calls < turn.max_model_calls


def asks_first(turn: Turn | None) -> bool:
    """Whether a turn that reaches a bound asks whether it may go on; `Limits.max_model_calls` may leave nothing to ask for."""
    return turn is not None and turn.asks and turn.stopping is None and turn.model_calls < turn.max_model_calls


def shown(turn: Turn, spec: AgentSpec | None, reached: Reached) -> JsonText:
    """The arguments of the call that asks: the bound, what the turn has used by now, and by how much it is extended."""
    stop = None if spec is None else spec.stop
    name = AGAIN.get(reached.reason)
    by = None if name is None else getattr(stop, name, None)
    used: dict[str, float] = {name: getattr(turn, name) for name in ("model_calls", "rounds", "tokens")}
    if stop is not None and stop.cost_usd is not None:
        used["cost_usd"] = turn.nano_usd / NANOS
    return jsontext.dumps({"bound": reached.detail, "used": used, "extends_by": {} if by is None else {name: by}})


def by_answer(turn: Turn, spec: AgentSpec | None, now: int, found: Reached | None = None) -> Reached | None:
    """The bound that the turn reaches with the calls of its last answer, before any of them begins.

    `found` is the one that its worker has found. A turn that asks does so about that one first: the others are found again.
    """
    stop = None if spec is None else spec.stop
    if stop is None:
        return None
    if found is not None and turn.asks:
        return _said(found)
    if stop.rounds is not None and turn.rounds - turn.rounds_from > stop.rounds:
        return Reached(reason=StopReason.ROUNDS, detail=f"Stop(rounds={stop.rounds})")
    if stop.tokens is not None and turn.tokens - turn.tokens_from >= stop.tokens:
        return Reached(reason=StopReason.TOKENS, detail=f"Stop(tokens={stop.tokens}): {turn.tokens} so far")
    if stop.cost_usd is not None and turn.nano_usd - turn.nano_usd_from >= round(NANOS * stop.cost_usd):
        detail = f"Stop(cost_usd={stop.cost_usd:.12g}): {turn.nano_usd / NANOS:.12g} so far"
        return Reached(reason=StopReason.COST, detail=detail)
    if stop.loop is not None and turn.asked:
        *before, last = (set(one.split()) for one in turn.asked[-stop.loop - 1 :])
        if any(last & one for one in before):
            return Reached(reason=StopReason.LOOP, detail=f"Stop(loop={stop.loop})")
    if found is not None:
        return _said(found)
    return by_time(turn, spec, now)


def _said(found: Reached) -> Reached:
    return found.model_copy(update={"detail": jsontext.clean(found.detail)})


def by_results(turn: Turn, spec: AgentSpec | None, now: int) -> Reached | None:
    """The bound that the turn reaches with the results of its last calls, before the next model call."""
    stop = None if spec is None else spec.stop
    if stop is None:
        return None
    if not turn.rounds:
        return by_time(turn, spec, now)
    if stop.errors is not None and turn.errors >= stop.errors:
        return Reached(reason=StopReason.ERRORS, detail=f"Stop(errors={stop.errors})")
    allowed = turn.extended_at == turn.answered_at
    if stop.tool is not None and not allowed and any(call.tool == stop.tool for call in turn.calls):
        return Reached(reason=StopReason.TOOL, detail=f"Stop(tool={stop.tool!r})")
    return by_time(turn, spec, now)


def by_time(turn: Turn, spec: AgentSpec | None, now: int) -> Reached | None:
    """The bound of the turn's time, if that is over at `now` (ms UTC)."""
    if not turn.is_overdue(now):
        return None
    stop = None if spec is None else spec.stop
    said = "timeout_s" if stop is None or stop.timeout_s is None else f"timeout_s={stop.timeout_s:.12g}"
    return Reached(reason=StopReason.TIMEOUT, detail=f"Stop({said})")
