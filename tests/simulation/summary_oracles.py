"""What requests for summaries must have led to when a simulation is over: an account of the log of its own, event by event."""

from dataclasses import dataclass, field

from holdfast.client.summary import SummaryStatus, summary_of
from holdfast.client.usage import UsageBy, usage_of
from holdfast.conversation import SummaryFailure
from holdfast.conversation.log.transcript import Transcript
from holdfast.conversation.records.events import (
    Compacted,
    CompactionRequested,
    CompactionStarted,
    Ended,
    InputSuperseded,
    ModelAnswered,
    SummaryFailed,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from holdfast.errors import SummaryNotFound

from .shop import agent_of
from .store import at_once

SERVED = {
    Compacted: SummaryStatus.COMPACTED,
    SummaryFailed: SummaryStatus.FAILED,
    InputSuperseded: SummaryStatus.SUPERSEDED,
    TurnCancelled: SummaryStatus.CANCELLED,
    Ended: SummaryStatus.DROPPED,
}
"""What people are told of a request by the event that ends it."""
OF_SUMMARIES = (CompactionRequested, CompactionStarted, Compacted, SummaryFailed)
NO_ANSWER = tuple(map(SummaryFailure, ("not_asked", "no_answer", "overflow", "unusable")))
"""Why summaries failed that nobody has paid for."""


@dataclass
class Account:
    """The requests of a log so far, by the `seq` of each, and the turns: no summary that goes on by itself is one."""

    open: list = field(default_factory=list)  # what nothing has ended yet
    became: dict = field(default_factory=dict)  # what people are told of the others
    turn: str | None = None
    summary: str | None = None  # what stands in place of a turn's id while a summary goes on by itself
    over: set = field(default_factory=set)  # of those, the ones that have ended
    turns: int = 0
    last: str | None = None  # the last turn that is over

    def ends(self, event):
        """All that is asked for ends with this event."""
        self.became |= dict.fromkeys(self.open, SERVED[type(event)])
        self.open = []
        self.stops()

    def stops(self):
        """What goes on by itself is over."""
        if self.summary is not None:
            self.over.add(self.summary)
        self.summary = None


def requests_are_served_once(world, history):
    """A request for a summary ends once; what goes on for one alone is no turn, answers nothing and calls one model, once."""
    account, problems = Account(), []
    compact = agent_of(history.conversation_id, history.events).spec.context
    compact = None if compact is None else compact.compact
    for seq, event in enumerate(history.events, 1):
        if getattr(event, "turn_id", None) in account.over and not isinstance(event, InputSuperseded):
            problems.append(f"{event.kind} of {event.turn_id}, which is over")
        _account(account, seq, event, problems.append)
        if isinstance(event, CompactionRequested) and account.turn is not None and compact is None:
            problems.append(f"a summary is asked for at {seq}, during the turn of an agent that makes none")
        if isinstance(event, Compacted) and compact is None:
            problems.append(f"a summary is made at {seq}, and the agent makes none")
    state = history.states[-1]
    if account.open and account.turn is None:
        problems.append(f"the requests at {account.open} are not served")
    last = None if state.last is None else state.last.turn_id
    if (state.turns, last) != (account.turns, account.last):
        problems.append(f"there were {account.turns} turns up to {account.last}, and by its state {state.turns} up to {last}")
    problems += _told(world, history, account)
    for problem in problems:
        world.ledger.wrong("%s: %s", history.conversation_id, problem)


def _account(account, seq, event, wrong):  # noqa: C901, PLR0912 - one case for each event
    """Account for one event."""
    match event:
        case CompactionRequested():
            account.open.append(seq)
        case CompactionStarted():
            if account.turn or account.summary or not account.open:
                wrong(f"{event.turn_id} begins beside {account.turn or account.summary}, for the requests {account.open}")
            elif (event.requested_at, event.turn_id) != (account.open[0], f"c{account.open[0]}"):
                wrong(f"{event.turn_id} begins for {event.requested_at}, and {account.open} are to be served")
            account.summary = event.turn_id
        case Compacted() | SummaryFailed():
            if event.turn_id != (account.summary or account.turn):
                wrong(f"{event.kind} of {event.turn_id}, and {account.summary or account.turn} goes on")
            if account.summary and event.effect_id != f"{account.summary}.m1":
                wrong(f"{event.effect_id} is the outcome of {account.summary}")
            account.ends(event)
        case TurnCancelled() if account.summary:
            if event.turn_id != account.summary or event.calls:
                wrong(f"{event.turn_id} is cancelled with {event.calls}, and {account.summary} goes on")
            if event.request_id is None:  # it is part of an interruption, or of the end, which follows
                account.stops()
            else:
                account.ends(event)
        case InputSuperseded() | Ended():
            account.ends(event)
        case ModelAnswered() if account.summary or event.effect_id.startswith("c"):
            wrong(f"{event.effect_id} answers, and {account.summary} is no turn")
        case TurnStarted() | TurnCompleted() | TurnFailed() | TurnCancelled():
            if account.summary or event.turn_id.startswith("c"):
                wrong(f"{event.kind} of {event.turn_id}, and {account.summary} is no turn")
            if isinstance(event, TurnStarted):
                account.turn, account.turns = event.turn_id, account.turns + 1
            else:
                account.turn, account.last = None, event.turn_id


def _told(world, history, account):
    """What people are told of each request, and what they are told that all answers have used."""
    if world.ledger.times_set_back:  # requests that are gone have no receipt
        return
    memory, name = world.memory, history.conversation_id
    for seq, event in enumerate(history.events, 1):
        if isinstance(event, CompactionRequested):
            due = account.became.get(seq, SummaryStatus.WAITING)
            try:
                told = at_once(summary_of(memory, name, event.request_id)).status
            except SummaryNotFound as error:
                told = error
            if told != due:
                yield f"of the request at {seq} people are told {told}, and it is {due}"
    if world.summaries.there and history.events:
        answers = history.of(ModelAnswered, Compacted, SummaryFailed)
        paid = sum(getattr(event, "reason", None) not in NO_ANSWER for event in answers)
        used = at_once(usage_of(memory, name, UsageBy.MODEL))
        if (used.total.model_calls, used.turns) != (paid, account.turns):
            yield f"{paid} answers are paid for in {account.turns} turns, and told are {used.total} in {used.turns}"


def a_summary_changes_nothing_else(ledger, history):
    """No event of a summary changes a conversation's messages, and one by itself has nothing that a message overrides."""
    transcript = Transcript()
    for seq, event in enumerate(history.events, 1):
        before = transcript.messages()
        transcript.add(seq, event)
        if isinstance(event, OF_SUMMARIES) and transcript.messages() != before:
            ledger.wrong("%s: %s at %d changes the messages", history.conversation_id, event.kind, seq)
        if isinstance(event, CompactionStarted) and transcript.overrides is not None:
            ledger.wrong("%s: %s has what a message overrides", history.conversation_id, event.turn_id)


def problem_of_call(request, events, spec):
    """What is wrong with a model call as it is sent, in this log: it summarises first if that is asked for."""
    waits = waiting_in(events)
    if bool(waits) != request.compact and not request.stopped:
        return f"a summary is {'' if request.compact else 'not '}asked for, and by the log {waits} wait"
    if request.compact and spec.tools:
        return f"it answers, and {waits} wait for a summary"
    if request.effect_id.startswith("c") and not request.compact:
        return "it is for a summary, which nobody has asked for"
    return None


def waiting_in(events):
    """The `seq` of the requests that nothing has ended yet."""
    account = Account()
    for seq, event in enumerate(events, 1):
        _account(account, seq, event, lambda _: None)
    return account.open
