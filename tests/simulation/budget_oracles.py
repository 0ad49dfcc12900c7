"""What budgets must have led to when a simulation is over: the store's sums are those of the logs, and bound what begins."""

from decimal import Decimal

from holdfast.conversation import FailureReason, SummaryFailure
from holdfast.conversation.records.events import (
    Compacted,
    CompactionStarted,
    ModelAnswered,
    SummaryFailed,
    TurnFailed,
    TurnStarted,
)
from holdfast.conversation.terms.budget import DAY_MS, Spent
from holdfast.conversation.terms.money import NANOS

from .shop import BY_NAME


def budgets_bound_what_begins(world, histories):
    """Each answer counts once for its agent's day, and no turn goes on that began beyond the budget of its conversation."""
    sums, answers = {}, []
    for history in histories.values():
        for event in history.events if _budget(history, "day") is not None else ():
            if isinstance(event, ModelAnswered | Compacted | SummaryFailed):
                place = history.events[0].agent, event.at // DAY_MS
                tokens = (event.input_tokens or 0) + (event.output_tokens or 0)
                sums[place] = sums.get(place, Spent()) + Spent(tokens=tokens, nano_usd=_nanos(event))
                answers.append((place, event.at, _nanos(event)))
        _conversation_is_bounded(world, history)
    if world.memory._spent != sums:
        world.ledger.wrong("the store has counted %s, and the logs have %s", world.memory._spent, sums)
    for history in histories.values():
        _day_is_used_up(world, history, answers)


def _conversation_is_bounded(world, history):
    used, due, budget = 0, False, _budget(history, "conversation")
    if budget is None:
        return
    for event in history.events:
        match event:
            case TurnStarted() | CompactionStarted():
                due = used >= _bound(budget)
            case ModelAnswered() | Compacted() | SummaryFailed():
                used += _nanos(event)
                if due and getattr(event, "reason", None) is not SummaryFailure.NOT_ASKED:
                    world.ledger.wrong("%s: a model is asked beyond the budget", history.conversation_id)
            case TurnFailed() if (event.reason is FailureReason.BUDGET_EXCEEDED and not event.until) != due:
                world.ledger.wrong("%s: %s, and %d are used", history.conversation_id, event.reason, used)
    if history.states[-1].spent.nano_usd != used:
        world.ledger.wrong("%s: %d are counted, and %d used", history.conversation_id, history.states[-1].spent.nano_usd, used)


def _day_is_used_up(world, history, answers):
    budget = _budget(history, "day")
    for event in history.events if budget is not None else ():
        if not isinstance(event, TurnFailed) or not event.until:
            continue
        place = history.events[0].agent, event.until // DAY_MS - 1
        used = sum(nanos for by, at, nanos in answers if by == place and at <= event.at)
        if used < _bound(budget) and not world.ledger.times_set_back:
            world.ledger.wrong("%s: a turn does not begin, and only %d are used", history.conversation_id, used)


def _budget(history, per):
    budgets = BY_NAME[history.events[0].agent].spec.budgets if history.events else ()
    return next((budget for budget in budgets if budget.per == per), None)


def _bound(budget):
    return int(Decimal(str(budget.cost_usd)) * NANOS)


def _nanos(event):
    return int(Decimal(str(event.cost_usd or 0)) * NANOS)
