"""What stops must have led to when a simulation is over, worked out from the log and from what the app declares."""

import math
from dataclasses import dataclass, field
from decimal import Decimal

from holdfast.conversation import Stop, StopReason
from holdfast.conversation.records.events import (
    CallHeld,
    CallResolved,
    CallSuspended,
    Compacted,
    ModelAnswered,
    RunScheduled,
    SettledBy,
    StopReached,
    SummaryFailed,
    SuspensionSettled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)

from .input_oracles import HEALED_WITHIN_MS
from .shop import agent_of

STOPPED_IN_TIME = "the turn was stopped (Stop(timeout_s="
"""What the result of a call says that was ended with the time of its turn."""
STOPPED_WITHIN_MS = 10_000
"""How late the time of a turn may end it, once everything is healed."""


@dataclass
class Account:
    """A turn as the log has it so far."""

    most: int  # how many model calls it may have
    stop: Stop
    calls: int = 0
    cost: Decimal = Decimal(0)  # of its answers, in US dollars
    answers: list = field(default_factory=list)  # what each answer asked for
    failed: int = 0  # results in a row
    open: set = field(default_factory=set)  # the calls of the last answer
    used: set = field(default_factory=set)  # the tools of those that were taken up
    ends_at: float = math.inf  # in ms, as far as it is known
    waiting: set = field(default_factory=set)  # the suspensions that wait for people
    since: int = 0  # when they began to
    cut: set = field(default_factory=set)  # the calls that were ended as its time was over
    due: StopReason | None = None  # the bound that is reached: nothing but the end may follow
    asked: bool = False  # for its last words
    said: bool = False  # what these are

    def reached(self):
        """The bound that the turn has reached once its calls have their results."""
        if self.stop.errors is not None and self.failed >= self.stop.errors:
            return StopReason.ERRORS
        return StopReason.TOOL if self.stop.tool in self.used else None

    def passed(self, at):
        """Whether its time is over."""
        return not self.waiting and at >= self.ends_at

    def waits(self, event):
        """Account for a suspension that begins or ends: the time stands still while any waits for people."""
        before = bool(self.waiting)
        if isinstance(event, CallSuspended):
            self.waiting |= set() if event.source or self.stop.waits else {event.suspension_id}
        else:
            self.waiting.discard(event.suspension_id)
        if self.waiting and not before:
            self.since = event.at
        elif before and not self.waiting:
            self.ends_at += event.at - self.since


def turns_stop_at_their_bounds(world, history):
    """A turn that reaches a bound ends there, by no other one, and after it there are neither runs nor waits."""
    account, stop = None, agent_of(history.conversation_id, history.events).spec.stop or Stop(rounds=1000)
    if stop.then == "ask":  # `turns_ask_before_they_stop` looks at those
        return

    def wrong(what):
        world.ledger.wrong("%s: after %d model calls, %s", history.conversation_id, account.calls, what)

    for event in history.events:
        match event:
            case TurnStarted():
                account = Account(most=event.max_model_calls, stop=stop)
                account.ends_at = math.inf if stop.timeout_s is None else event.at + stop.timeout_s * 1000
            case ModelAnswered():
                _answered(account, event, wrong)
            case CallHeld() | CallSuspended() | RunScheduled():
                account.used.add(event.tool)
                if account.due:
                    wrong(f"{event.tool_call_id} goes on after its turn has reached {account.due}")
            case CallResolved():
                _resolved(account, event, wrong)
            case StopReached():
                _reached(world, account, event, wrong)
                if account.asked or stop.then != "last_words":
                    wrong(f"last words are asked for, and the agent says {stop}")
                account.asked, account.ends_at = True, math.inf
            case TurnCompleted():
                _completed(world, account, event, wrong)
            case TurnFailed() if account.due:
                wrong(f"the turn fails, and has reached {account.due}")
        _beside(account, event)


def _beside(account, event):
    """Account for waits, and for what summaries of the turn have cost."""
    if isinstance(event, CallSuspended | SuspensionSettled):
        account.waits(event)
    elif isinstance(event, Compacted | SummaryFailed) and not event.turn_id.startswith("c"):
        account.cost += Decimal(str(event.cost_usd or 0))


def _answered(account, event, wrong):
    if account.said or (account.due and not account.asked):
        wrong(f"a model answers after the turn has reached {account.due}")
    account.calls, account.said = account.calls + 1, account.asked
    account.cost += Decimal(str(event.cost_usd or 0))
    account.open, account.used = {call.tool_call_id for call in event.calls}, set()
    if account.asked or not event.calls:
        return
    asked = {(call.name, call.arguments) for call in event.calls}
    account.answers.append(asked)
    if account.stop.rounds is not None and len(account.answers) > account.stop.rounds:
        account.due = StopReason.ROUNDS
    elif account.stop.cost_usd is not None and account.cost >= Decimal(str(account.stop.cost_usd)):
        account.due = StopReason.COST
    elif account.stop.loop is not None and any(asked & before for before in account.answers[-account.stop.loop - 1 : -1]):
        account.due = StopReason.LOOP
    elif account.passed(event.at):
        account.due = StopReason.TIMEOUT


def _resolved(account, event, wrong):
    account.open.discard(event.tool_call_id)
    account.failed = 0 if event.ok else account.failed + 1
    if account.due and event.by is not SettledBy.REFUSAL:
        wrong(f"{event.tool_call_id} has a result by {event.by} after its turn has reached {account.due}")
    if event.by is SettledBy.CANCELLATION and STOPPED_IN_TIME in event.content:
        account.cut.add(event.tool_call_id)
        if not account.passed(event.at):
            wrong(f"{event.tool_call_id} is ended before the time of its turn is over")
    elif not account.due and not account.open:
        account.due = account.reached() or (StopReason.TIMEOUT if account.passed(event.at) else None)


def _reached(world, account, event, wrong):
    """Account for the end of a turn by a bound, or for its last words."""
    reason = event.reason if isinstance(event, StopReached) else event.stopped
    late_ms = event.at - max(account.ends_at, world.inputs.healed_at + HEALED_WITHIN_MS)
    if not account.waiting and late_ms > STOPPED_WITHIN_MS and not world.watched:
        wrong(f"the turn ends {late_ms} ms after its time")
    if account.due is None and reason is StopReason.TIMEOUT and account.passed(event.at):
        account.due = reason  # while a model call went on, or calls were open
    if account.open:
        wrong(f"the turn ends, and {sorted(account.open)} have no results")
    if reason is not account.due:
        wrong(f"the turn stops by {reason}, and has reached {account.due}")
    elif account.cut and reason is not StopReason.TIMEOUT:
        wrong(f"{sorted(account.cut)} were ended as by the time of the turn, which stops by {reason}")


def _completed(world, account, event, wrong):
    _reached(world, account, event, wrong)
    if account.due and account.stop.then == "last_words" and not account.asked and account.calls < account.most:
        wrong("the turn stops, and nobody has asked for last words")
