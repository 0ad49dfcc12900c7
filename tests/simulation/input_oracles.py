"""What must have become of each message when a simulation is over: an account of the log of its own, event by event."""

from dataclasses import dataclass, field
from itertools import pairwise

from holdfast.client.turns import MessageStatus, TurnLog
from holdfast.conversation import SuspensionKind
from holdfast.conversation.log.transcript import Transcript
from holdfast.conversation.records.events import (
    CallResolved,
    CallSuspended,
    Compacted,
    CompactionRequested,
    CompactionStarted,
    Ended,
    InputDue,
    InputJoined,
    InputRescheduled,
    InputSuperseded,
    InputWithdrawn,
    MessageAccepted,
    ModelAnswered,
    SummaryFailed,
    SuspensionSettled,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)

QUEUED_WITHIN_MS = 5_000
"""How soon a delayed message is queued once its time has come and everything is healed."""
HEALED_WITHIN_MS = 10_000
"""How long after the last fault somebody may still wait for a process that was lost."""
GONE = {"withdrawn": MessageStatus.WITHDRAWN, "superseded": MessageStatus.SUPERSEDED, "dropped": MessageStatus.DROPPED}


@dataclass
class Account:
    """Where each message is, by its `seq`: with its priority and place in the queue, with its time, or what became of it."""

    queue: dict = field(default_factory=dict)
    delayed: dict = field(default_factory=dict)
    steered: dict = field(default_factory=dict)
    became: dict = field(default_factory=dict)
    accepted: dict = field(default_factory=dict)
    turn: str | None = None
    open: set = field(default_factory=set)  # calls without a result
    epoch: int = 0
    by_hand: int = 0  # the request for a summary that waits in the queue, or is under way

    def put(self, seq, priority):
        """Put a message behind all of its priority."""
        self.queue[seq] = priority, max((place for _, place in self.queue.values()), default=0) + 1

    @property
    def in_order(self):
        return sorted(self.queue, key=self.queue.get)

    @property
    def messages(self):
        """What is queued, without the request for a summary."""
        return [seq for seq in self.in_order if seq != self.by_hand]

    def take(self, seq):
        """Take a message from where it waits; whether it did."""
        return any(waiting.pop(seq, None) is not None for waiting in (self.queue, self.delayed, self.steered))

    def over(self):
        """The turn is over: what would have joined it has a turn of its own."""
        for seq, priority in self.steered.items():
            self.put(seq, priority)
        self.turn, self.open, self.steered = None, set(), {}

    def summarised(self):
        """The request for a summary waits no longer, nor does what goes on for that alone."""
        self.take(self.by_hand)
        if self.turn == f"c{self.by_hand}":
            self.turn = None
        self.by_hand = 0


def every_message_has_its_end(world, history):
    """Each message begins one turn, joins one, or is withdrawn, superseded or dropped, in the order that is promised."""
    account, problems = Account(), []
    for before, after in pairwise(history.places):
        events = history.events[before:after]
        _nothing_is_silenced(events, problems.append)
        _append(world, account, before, events, problems.append)
    state = history.states[-1]
    if not state.ended:
        due = [*account.steered, *account.messages, *sorted(account.delayed, key=account.delayed.get)]
        found = [one.seq for one in state.waiting]
        if found[: len(due) - len(account.delayed)] != due[: len(due) - len(account.delayed)] or sorted(found) != sorted(due):
            problems.append(f"{due} wait, and by its state {found} do")
    for problem in problems:
        world.ledger.wrong("%s: %s", history.conversation_id, problem)
    if not problems and world.inputs.there:
        _is_told(world.ledger, history, account)
        _models_read_nothing_that_is_gone(world.ledger, history, account)
        _joined_behind_results(world.ledger, history)


def _nothing_is_silenced(events, wrong):
    """Input but an interruption settles nothing, and drops nothing that waits."""
    kinds = {type(event) for event in events}
    asked = kinds & {MessageAccepted, InputWithdrawn, InputRescheduled, CompactionRequested}
    if asked and not kinds & {InputSuperseded, Ended} and kinds & {SuspensionSettled, CallResolved, TurnCancelled}:
        wrong(f"input settles something: {[event.kind for event in events]}")


def _append(world, account, before, events, wrong):
    """Account for one append."""
    calls_model, was = account.turn is not None and not account.open, (account.turn, set(account.open))
    for place, event in enumerate(events):
        seq = before + place + 1
        match event:
            case MessageAccepted():
                _accepted(account, seq, event, wrong)
            case InputDue():
                _due(world, account, event, wrong)
            case InputRescheduled():
                _moved(account, event, wrong)
            case InputJoined():
                if account.open or (calls_model and not any(isinstance(one, ModelAnswered) for one in events[:place])):
                    wrong(f"{event.message_seqs} join a turn while {account.open or 'a model call'} goes on")
                if event.message_seqs != tuple(account.steered) or event.turn_id != account.turn:
                    wrong(f"{event.message_seqs} join, and {tuple(account.steered)} are to join {account.turn}")
                account.became |= dict.fromkeys(event.message_seqs, ("joined", event.turn_id))
                account.steered = {}
            case InputWithdrawn(message_seq=message):
                if not account.take(message):
                    wrong(f"message {message} is withdrawn, and does not wait")
                account.became[message] = "withdrawn", None
            case InputSuperseded():
                _superseded(account, event, events[place + 1 :], seq, was, wrong)
            case CompactionRequested() if not account.by_hand:
                account.by_hand = seq
                account.put(seq, 0)
            case _:
                _of_turn(account, event, wrong)


def _of_turn(account, event, wrong):
    """Account for an event that says how a turn goes on."""
    match event:
        case TurnStarted(message_seq=message):
            if account.turn is not None or account.in_order[:1] != [message]:
                wrong(f"the turn of message {message} begins: {account.in_order} are queued, {account.turn} goes on")
            account.take(message)
            account.turn, account.open = event.turn_id, set()
            account.became[message] = "begun", event.turn_id
        case CompactionStarted(requested_at=request):
            if account.turn is not None or account.in_order[:1] != [request]:
                wrong(f"the summary for {request} begins: {account.in_order} are queued, {account.turn} goes on")
            account.take(request)
            account.turn, account.open = event.turn_id, set()
        case Compacted() | SummaryFailed():
            account.summarised()
        case ModelAnswered():
            account.open = {call.tool_call_id for call in event.calls}
        case CallSuspended(suspension_kind=SuspensionKind.LIMIT):
            account.open.add(event.tool_call_id)
        case CallResolved():
            account.open.discard(event.tool_call_id)
        case SuspensionSettled() if "." in event.tool_call_id:  # a question of the turn, which has no result
            account.open.discard(event.tool_call_id)
        case TurnCompleted() | TurnFailed() | TurnCancelled():
            if account.turn != event.turn_id:
                wrong(f"{event.turn_id} is over, and {account.turn} goes on")
            if event.turn_id == f"c{account.by_hand}":
                account.summarised()
            account.over()
        case Ended():
            account.summarised()
            left = (*account.steered, *account.queue, *account.delayed)
            account.became |= dict.fromkeys(left, ("dropped", None))
            account.queue, account.delayed, account.steered = {}, {}, {}


def _moved(account, event, wrong):
    message = event.message_seq
    if message in account.steered or not account.take(message):
        wrong(f"message {message} is moved, and does not wait")
    if event.due_at:
        account.delayed[message] = event.due_at, event.priority
    else:
        account.put(message, event.priority)


def _accepted(account, seq, event, wrong):
    account.accepted[seq] = event
    if event.due_at:
        account.delayed[seq] = event.due_at, event.priority
    elif event.steers:
        account.steered[seq] = event.priority
    else:
        account.put(seq, event.priority)
    if event.steers and (account.turn is None or account.turn.startswith("c")):
        wrong(f"message {seq} is to join a turn, and none goes on")


def _due(world, account, event, wrong):
    """Delayed messages are queued: not before their times, in the order of these, and soon after."""
    for seq in event.message_seqs:
        due_at, priority = account.delayed.pop(seq, (float("inf"), 0))
        if due_at > event.at:
            wrong(f"message {seq} is queued {due_at - event.at} ms before its time")
        late_ms = event.at - max(due_at, world.inputs.healed_at + HEALED_WITHIN_MS)
        if late_ms > QUEUED_WITHIN_MS and not world.watched:
            wrong(f"message {seq} is queued {late_ms} ms after its time")
        account.put(seq, priority)


def _superseded(account, event, behind, seq, was, wrong):
    """An interruption: it has cancelled the turn, supersedes all that is queued, and has an epoch of its own."""
    name = event.request_id
    if account.turn is not None or (event.turn_id, set(event.calls)) != was:
        wrong(f"{name} interrupts {event.turn_id} with {event.calls}, and {was} went on")
    if list(event.message_seqs) != account.messages:
        wrong(f"{name} supersedes {event.message_seqs}, and {account.messages} are queued")
    if event.message_ids != tuple(account.accepted[one].message_id for one in event.message_seqs):
        wrong(f"{name} supersedes {event.message_seqs} as {event.message_ids}")
    if event.epoch != account.epoch + 1:
        wrong(f"{name} is interruption {event.epoch}, after {account.epoch}")
    instead = next((one.message_id for one in behind if isinstance(one, MessageAccepted)), None)
    if (event.by_seq and (event.by_seq, name) != (seq + 1, instead)) or (not event.by_seq and instead):
        wrong(f"{name} goes on with message {event.by_seq}, which is {instead}")
    account.summarised()
    account.epoch = event.epoch
    for one in event.message_seqs:
        account.take(one)
        account.became[one] = "superseded", event.by_seq


def _is_told(ledger, history, account):
    """What people are told of each message is what became of it, whether the whole log was read or only from there on."""
    whole = TurnLog(history.conversation_id)
    whole.add_all(enumerate(history.events, 1))
    for seq, accepted in account.accepted.items():
        became, by = account.became.get(seq, ("", None))
        part = TurnLog(history.conversation_id, after=seq - 1)
        part.add_all((place, event) for place, event in enumerate(history.events, 1) if place >= seq)
        for told in (whole.message(seq), part.message(seq)):
            instead = account.accepted[by].message_id if became == "superseded" and by else None
            fine = told.message_id == accepted.message_id and told.superseded_by == instead
            if became in GONE:
                fine = fine and told.status is GONE[became] and told.turn_id is None
            elif became:
                fine = fine and told.turn_id == by and (told.joined_at is not None) == (became == "joined")
            if not fine or (not became and not history.states[-1].waiting):
                ledger.wrong("%s: message %d is %s (%s), and told to be %s", history.conversation_id, seq, became, by, told)


def _models_read_nothing_that_is_gone(ledger, history, account):
    """What was withdrawn, superseded or dropped was in no request to a model."""
    if ledger.times_set_back:
        return
    for seq, (became, _) in account.became.items():
        if became in GONE and account.accepted[seq].text in ledger.read[history.conversation_id]:
            ledger.wrong("%s: message %d is %s, and a model has read it", history.conversation_id, seq, became)


def _joined_behind_results(ledger, history):
    """What joins a turn stands behind the results of its last calls, and stays there."""
    transcript, stays = Transcript(), []
    for seq, event in enumerate(history.events, 1):
        before = transcript.messages()
        transcript.add(seq, event)
        if isinstance(event, InputJoined):
            texts = [history.events[one - 1].text for one in event.message_seqs]
            if transcript.messages() != [*before, *({"role": "user", "content": text} for text in texts)]:
                ledger.wrong("%s: what joined at %d does not stand behind all before it", history.conversation_id, seq)
            stays = transcript.messages()
    if transcript.messages()[: len(stays)] != stays:
        ledger.wrong("%s: something came in before what has joined", history.conversation_id)
