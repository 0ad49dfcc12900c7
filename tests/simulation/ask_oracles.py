"""What questions of turns must have led to when a simulation is over, by the log and by what the app declares."""

from dataclasses import dataclass, field

from holdfast.conversation import StopReason, SuspensionKind
from holdfast.conversation.records.events import (
    CallHeld,
    CallSuspended,
    ModelAnswered,
    RunScheduled,
    SettledBy,
    SuspensionSettled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)

from .shop import agent_of

CUT_OFF = (None, StopReason.LENGTH, StopReason.CONTENT_FILTER)
"""Why turns end that no bound ended."""


@dataclass
class Asking:
    """A turn as the log has it so far."""

    most: int  # how many model calls it may have
    rounds_left: int  # rounds of calls that may still begin; a round that is held counts once it is asked about
    question: str = ""  # the suspension that is open
    about: StopReason | None = None
    denied: bool = False
    calls: int = 0
    begun: set = field(default_factory=set)  # calls that have begun, or asked for themselves


def turns_ask_before_they_stop(ledger, history):  # noqa: C901, PLR0912 - one case for each event
    """A turn ends by no bound unasked; while it asks no model is called and no call begins, and after a no nothing goes on."""
    stop, account = agent_of(history.conversation_id, history.events).spec.stop, None
    if stop is None or stop.then != "ask":
        return
    most_rounds = 10**6 if stop.rounds is None else stop.rounds

    def wrong(what):
        ledger.wrong("%s: after %d model calls, %s", history.conversation_id, account.calls, what)

    for event in history.events:
        match event:
            case TurnStarted():
                account = Asking(most=event.max_model_calls, rounds_left=most_rounds)
            case ModelAnswered():
                account.calls += 1
                account.rounds_left -= bool(event.calls) and event.misfit is None and not event.shaped
                if account.question or account.denied:
                    wrong("a model answers, and nobody has let the turn go on")
            case CallSuspended(suspension_kind=SuspensionKind.LIMIT):
                if account.question or account.denied:
                    wrong("the turn asks twice")
                account.question, account.about = event.suspension_id, event.reached.reason
            case SuspensionSettled() if event.suspension_id == account.question:
                account.question, account.denied = "", event.by is not SettledBy.APPROVE
                if account.about is StopReason.ROUNDS and not account.denied:
                    account.rounds_left = most_rounds - 1
            case CallHeld() if account.denied:
                wrong(f"{event.tool_call_id} is held, and the turn may not go on")
            case CallSuspended() | RunScheduled():
                first = event.tool_call_id not in account.begun
                account.begun.add(event.tool_call_id)
                if account.denied or (first and account.question):
                    wrong(f"{event.tool_call_id} goes on, and nobody has let the turn go on")
                if first and account.rounds_left < 0:
                    wrong(f"{event.tool_call_id} begins beyond the rounds of its turn")
            case TurnCompleted():
                if event.stopped not in CUT_OFF and not account.denied and account.calls < account.most:
                    wrong(f"the turn ends by {event.stopped}, and nobody was asked")
                if account.denied and event.stopped is not account.about:
                    wrong(f"the turn ends by {event.stopped}, and was asked about {account.about}")
            case TurnFailed() if account.denied:
                wrong("the turn fails that may not go on")
