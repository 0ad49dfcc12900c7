"""What must be true when a simulation is over: each promise, held against the log and against what callers were told."""

from collections import Counter

from holdfast.conversation import (
    Assign,
    Cancelled,
    CancelPending,
    CancelTurn,
    Claim,
    Comment,
    CompactNow,
    End,
    Execution,
    GiveBack,
    Interrupted,
    ModelFailed,
    Receipt,
    Receipts,
    Reschedule,
    Resolve,
    ResolveMany,
    Revoke,
    RevokeGiven,
    Send,
    Start,
    State,
    Summarized,
    When,
    Withdraw,
    decide,
    evolve,
)
from holdfast.conversation.log.index import facts, pending_entries
from holdfast.conversation.records.events import (
    CallAssigned,
    CallClaimed,
    CallCommented,
    CallGivenBack,
    CallResolved,
    CallSuspended,
    Compacted,
    CompactionRequested,
    Ended,
    GivenRevoked,
    GrantRevoked,
    InputRescheduled,
    InputSuperseded,
    InputWithdrawn,
    MessageAccepted,
    ModelAnswered,
    PendingCancelled,
    RunScheduled,
    SettledBy,
    SuspensionSettled,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    VoteCast,
)
from holdfast.conversation.terms.decisions import DecisionKind
from holdfast.errors import (
    CorruptStore,
    HoldfastError,
    OutcomeUnknown,
    Overloaded,
    Quarantined,
    StaleCall,
    StoreUnavailable,
)
from holdfast.persistence import codec

from .ask_oracles import turns_ask_before_they_stop
from .audit_oracle import the_chain_verifies
from .budget_oracles import budgets_bound_what_begins
from .child_oracles import children_do_what_is_asked
from .couriers import notices_were_told
from .device_oracles import calls_have_one_claimant
from .grant_oracles import grants_are_behind_what_runs, grants_are_what_was_asked_for
from .input_oracles import every_message_has_its_end
from .rule_oracles import rules_are_behind_denials
from .shop import agent_of
from .stage_oracles import deadlines_act_in_their_turn
from .stop_oracles import turns_stop_at_their_bounds
from .summary_oracles import a_summary_changes_nothing_else, requests_are_served_once
from .trace import shown
from .vote_oracles import calls_are_decided_by_those_who_may
from .window_oracles import Asking, replies_have_their_shape, summaries_stand_for_what_was_said

ANSWER_SLACK_S = 3.0
"""How long after its deadline a caller may be told."""

NUMBERED = (
    *(TurnCancelled, PendingCancelled, GrantRevoked, GivenRevoked, CallAssigned, CallCommented, Ended),
    *(InputSuperseded, InputWithdrawn, InputRescheduled, CallClaimed, CallGivenBack, CompactionRequested),
)
"""The events of requests that have a `request_id`."""
TERMINAL = (TurnCompleted, TurnFailed, TurnCancelled)


def judge(world):
    """Note in the ledger what is broken."""
    histories = {}
    for conversation_id, found in world.memory._conversations.items():
        events = [codec.decode_event(data) for data in found.log]
        try:
            history = History(conversation_id, events, world.ledger.log(conversation_id))
        except ValueError as error:
            world.ledger.wrong("%s: its log cannot be folded (%s)", conversation_id, error)
            return
        histories[conversation_id] = history
        _the_log_is_whole(world, history, found)
        _every_call_is_settled_once(world.ledger, history)
        _calls_keep_to_the_execution(world.ledger, history)
        every_message_has_its_end(world, history)
        calls_have_one_claimant(world, history)
        _bodies_are_behind_results(world.ledger, history)
        _answers_are_those_to_this_log(world, history)
        rules_are_behind_denials(world.ledger, history)
        calls_are_decided_by_those_who_may(world.ledger, history)
        deadlines_act_in_their_turn(world.ledger, history)
        turns_stop_at_their_bounds(world, history)
        turns_ask_before_they_stop(world.ledger, history)
        replies_have_their_shape(world, history)
        summaries_stand_for_what_was_said(world, history)
        requests_are_served_once(world, history)
        a_summary_changes_nothing_else(world.ledger, history)
        grants_are_behind_what_runs(world.ledger, history)
        the_chain_verifies(world.ledger, history)
        notices_were_told(world, history)
    for asked in world.ledger.asked:
        history = histories.get(asked.conversation_id) or History(
            asked.conversation_id, [], world.ledger.log(asked.conversation_id)
        )
        _answered_in_time(world.ledger, asked)
        if asked.lost:
            continue
        if asked.error is not None:
            _the_refusal_is_justified(world, history, asked)
        elif asked.answered_at is not None:
            _the_acknowledgement_holds(world.ledger, history, asked)
            grants_are_what_was_asked_for(world.ledger, history, asked)
    _repeated_receipts_agree(world.ledger)
    children_do_what_is_asked(world, histories)
    budgets_bound_what_begins(world, histories)


class History:
    """A log with the state and the facts after each event."""

    def __init__(self, conversation_id, events, written):
        self.conversation_id = conversation_id
        self.events = events
        self.places = written.places
        self.states = [State(conversation_id=conversation_id)]
        self._facts = {}
        for seq, event in enumerate(events, 1):
            self.states.append(evolve(self.states[-1], event))
            for key, known in facts([event], seq).items():
                self._facts.setdefault(key, []).append(known)

    def known(self, keys, place):
        """What the store knew of these keys when the log was that long."""
        found = {}
        for key in keys:
            for known in self._facts.get(key, ()):
                if known.seq <= place:
                    found[key] = known
        return found

    def of(self, *kinds):
        return [event for event in self.events if isinstance(event, kinds)]


def _the_log_is_whole(world, history, found):
    ledger, name = world.ledger, history.conversation_id
    if history.events != ledger.log(name).events:
        ledger.wrong("%s: the log is not what was appended", name)
    if late := [name for name in found.late if "#" not in name]:
        ledger.wrong("%s: the late outcomes of model calls are kept: %s", name, late)
    state = history.states[-1]
    if found.log and world.memory._state(name, found) != state:
        ledger.wrong("%s: snapshot and tail lead elsewhere than the log", name)
    if state.turn is None and (runs := world.memory._runs(name)):
        ledger.wrong("%s: no turn goes on, and there are records of %s", name, sorted(runs))
    indexed = tuple(sorted(found.pending.values(), key=lambda entry: entry.seq))
    if found.log and (found.listed, indexed) != (state, pending_entries(state)):
        ledger.wrong("%s: its index entries do not follow from its log", name)


def _once(ledger, history, what, ids):
    for one, times in Counter(ids).items():
        if times > 1:
            ledger.wrong("%s: %s %s stands in the log %d times", history.conversation_id, what, one, times)


def _every_call_is_settled_once(ledger, history):
    name = history.conversation_id
    asked = [call.tool_call_id for event in history.of(ModelAnswered) for call in event.calls]
    resolved = [event.tool_call_id for event in history.of(CallResolved)]
    _once(ledger, history, "call", asked)
    _once(ledger, history, "the result of", resolved)
    _once(ledger, history, "model call", [event.effect_id for event in history.of(ModelAnswered)])
    _once(ledger, history, "run", [(event.tool_call_id, event.attempt) for event in history.of(RunScheduled)])
    _once(ledger, history, "suspension", [event.suspension_id for event in history.of(CallSuspended)])
    _once(ledger, history, "the end of", [event.suspension_id for event in history.of(SuspensionSettled)])
    _once(ledger, history, "message", [event.message_id for event in history.of(MessageAccepted)])
    decisions = [event.decision_id for event in history.of(SuspensionSettled, VoteCast)]
    _once(ledger, history, "decision", [one for one in decisions if one])
    requests = [event.request_id for event in history.of(*NUMBERED)]
    _once(ledger, history, "request", [one for one in requests if one])
    if history.states[-1].turn is None and sorted(asked) != sorted(resolved):
        ledger.wrong("%s: calls %s have results %s", name, asked, resolved)
    settled = {event.suspension_id for event in history.of(SuspensionSettled)}
    for event in history.of(CallSuspended):
        if history.states[-1].turn is None and event.suspension_id not in settled:
            ledger.wrong("%s: %s was never settled", name, event.suspension_id)


def _calls_keep_to_the_execution(ledger, history):
    """One after the other, or none before all that need a person are decided, as the agent says: after every event.

    A call that rules ask about when it is about to run has been let go with the others, which may have begun.
    So has one that was let go by a grant which has ended by then, and that is asked about after all.
    """
    execution, held = agent_of(history.conversation_id, history.events).spec.execution, set()
    for place, state in enumerate(history.states):
        calls = state.calls
        if state.turn is not None and state.turn.asking is not None:  # what goes on does so beside the turn's question
            held |= {call.tool_call_id for call in calls.held()}
            continue
        asked = [call for call in calls.awaiting() if call.suspensions == 1 and call.tool_call_id not in held]
        undecided = any(call.undecided and not call.attempt for call in asked)
        held |= {call.tool_call_id for call in calls.held()}
        wrong = {
            Execution.PARALLEL: bool(calls.held()) and (state.turn is None or not state.turn.asks),
            Execution.SEQUENTIAL: len(calls.running()) + len(calls.awaiting()) > 1,
            Execution.BATCH: bool(undecided and calls.running()),
        }[execution]
        if wrong:
            ledger.wrong("%s: after %d its calls are not carried out as %s", history.conversation_id, place, execution)


def _bodies_are_behind_results(ledger, history):
    attempts = {}
    for event in history.of(RunScheduled, CallResolved):
        if isinstance(event, RunScheduled):
            attempts[event.tool_call_id] = event.attempt
        elif event.by is SettledBy.RUN and event.ok:
            key = (history.conversation_id, event.tool_call_id, attempts.get(event.tool_call_id))
            bodies = ledger.bodies.get(key), ledger.forgotten.get(key)  # one begun in a lost log may end for the log as it is
            if not any(body is not None and body.over for body in bodies):
                ledger.wrong("%s: %s has a result of a body that did not end", history.conversation_id, event.tool_call_id)


def _answers_are_those_to_this_log(world, history):
    """The model is a function: each of its answers must be the one to what the log holds before it."""
    asking = Asking(history)
    for seq, event in enumerate(history.events, 1):
        if isinstance(event, ModelAnswered | Compacted):
            before = history.states[seq - 1]
            stopped = "" if before.turn.stopping is None else before.turn.stopping.detail
            by_hand = isinstance(event, Compacted) and bool(before.compacting)
            spec, messages, summarised = asking.sent(stopped, by_hand=by_hand)
            due = world.model.to(history.conversation_id, event.effect_id, messages, spec)
            if isinstance(event, Compacted) and summarised is not None:
                due = asking.summarized(due, summarised)
            if isinstance(due, ModelFailed) or (type(event) is Compacted and summarised is None) or _said(due) != _said(event):
                world.ledger.wrong("%s: %s answers something else than this log", history.conversation_id, event.effect_id)
        try:
            asking.add(seq, event)
        except KeyError:
            world.ledger.wrong("%s: its log begins the turn of a message that it does not hold", history.conversation_id)
            return


def _said(answer):
    if isinstance(answer, Compacted | Summarized):
        return answer.summary, answer.boundary, answer.messages, answer.asked_at
    return answer.content, [(call.name, call.arguments) for call in answer.calls]


def _answered_in_time(ledger, asked):
    if asked.client.dead:
        return
    answered_at = asked.answered_at if asked.answered_at is not None else float("inf")
    late_s = answered_at - max(asked.give_up, min(asked.client.thawed_at, answered_at))
    if late_s > ANSWER_SLACK_S:
        ledger.wrong("%s was told of %s %.1f s after its deadline", asked.client, asked.command.kind, late_s)


def _the_acknowledgement_holds(ledger, history, asked):
    command, answer = asked.command, asked.answer
    match answer:
        case Receipt():
            event = history.events[answer.seq - 1] if 0 < answer.seq <= len(history.events) else None
            fine = event is not None and answer.seq <= asked.to_seq and event.at == answer.accepted_at and _says(event, command)
            if fine and not answer.duplicate and answer.seq <= asked.from_seq:
                fine = False
            if fine and isinstance(command, Send) and command.when is When.REJECT:
                before = history.states[answer.seq - 1]
                fine = before.turn is None and not before.queue
        case Receipts():
            fine = len(answer.receipts) == len(command.decisions) and all(
                receipt.seq <= asked.to_seq and _settles(history.events[receipt.seq - 1], one)
                for receipt, one in zip(answer.receipts, command.decisions, strict=True)
            )
        case Interrupted():
            made = [
                event for event in history.events[: asked.to_seq] if getattr(event, "request_id", None) == command.request_id
            ]
            fine = any(_interrupts(event, answer) for event in made) or (
                command.text is None and any(_stood_still(state, answer) for state in history.states[: asked.to_seq + 1])
            )
        case Cancelled(turn_id=None):
            since = 1 if answer.duplicate else max(asked.from_seq, 1)
            fine = not answer.calls and any(_nothing(state, command) for state in history.states[since : asked.to_seq + 1])
        case Cancelled():
            fine = any(_says(event, command) and _cancels(event, answer) for event in history.events[: asked.to_seq])
        case _:
            fine = False
    if not fine:
        ledger.wrong(
            "%s: %s was acknowledged (%s), and the log does not hold it", history.conversation_id, shown(command), answer
        )


def _says(event, command):
    match event, command:
        case MessageAccepted(), Start():
            return (event.message_id, event.text, event.overrides) == (command.message_id, command.text, command.overrides)
        case MessageAccepted(), Send():
            said = event.message_id, event.text, event.priority, event.due_at, event.overrides
            steers = command.when is When.STEER or not event.steers
            return said == (command.message_id, command.text, command.priority, command.at or 0, command.overrides) and steers
        case (InputWithdrawn(), Withdraw()) | (InputRescheduled(), Reschedule()):
            moved = isinstance(command, Withdraw) or (
                command.at in (None, event.due_at) and command.priority in (None, event.priority)
            )
            return (event.request_id, event.message_seq) == (command.request_id, command.message_seq) and moved
        case SuspensionSettled(), Resolve():
            same = (event.decision_id, event.tool_call_id, event.decision) == (
                command.decision_id,
                command.tool_call_id,
                command.ruling.kind,
            )
            return same and event.body == command.ruling.body and command.suspension_id in (None, event.suspension_id)
        case VoteCast(), Resolve():
            return _votes(event, command.decision_id, command.ruling)
        case (CallAssigned(), Assign()) | (CallCommented(), Comment()):
            return (event.request_id, event.suspension_id) == (command.request_id, command.suspension_id)
        case (CallClaimed(), Claim()) | (CallGivenBack(), GiveBack()):
            said = event.request_id, event.suspension_id, event.client
            return said == (command.request_id, command.suspension_id, command.client)
        case VoteCast(), ResolveMany():
            return any(_votes(event, one.decision_id, one.ruling) for one in command.decisions)
        case SuspensionSettled(), ResolveMany():
            return any(_settles(event, one) for one in command.decisions)
        case TurnCancelled(), CancelTurn():
            return event.request_id == command.request_id and command.turn_id in (None, event.turn_id)
        case GrantRevoked(), Revoke():
            return (event.request_id, event.grant_id) == (command.request_id, command.grant_id)
        case GivenRevoked(), RevokeGiven():
            return (event.request_id, event.by) == (command.request_id, command.by)
        case (PendingCancelled(), CancelPending()) | (Ended(), End()) | (CompactionRequested(), CompactNow()):
            return event.request_id == command.request_id
        case _:
            return False


def _votes(event, decision_id, ruling):
    """A vote says what was decided; who edits arguments agrees to them as they are then."""
    edits = ruling.kind is DecisionKind.APPROVE and ruling.body is not None
    said = event.decision_id, event.decision, event.body
    return said == (decision_id, ruling.kind, None if edits else ruling.body)


def _settles(event, one):
    if isinstance(event, VoteCast):
        return _votes(event, one.decision_id, one.ruling)
    said = event.decision_id, event.suspension_id, event.decision, event.body
    return said == (one.decision_id, one.suspension_id, one.ruling.kind, one.ruling.body)


def _cancels(event, answer):
    return (event.turn_id, event.calls) == (answer.turn_id, answer.calls)


def _interrupts(event, answer):
    said = (event.turn_id, event.calls, event.message_ids, event.epoch, event.by_seq or answer.seq, event.at)
    return said == (answer.turn_id, answer.cancelled, answer.superseded, answer.epoch, answer.seq, answer.accepted_at)


def _stood_still(state, answer):
    """Whether there was nothing to interrupt."""
    nothing = (answer.turn_id, answer.cancelled, answer.superseded) == (None, (), ())
    return nothing and state.turn is None and not state.queue and (state.seq, state.epoch) == (answer.seq, answer.epoch)


def _nothing(state, command):
    """Whether there was nothing to cancel."""
    if isinstance(command, CancelPending):
        waiting = [call.suspension for call in state.calls if call.suspension is not None]
        return all(command.suspension_kind not in (None, one.kind) for one in waiting)
    return (state.turn is None and not state.queue) or command.turn_id is not None


def _the_refusal_is_justified(world, history, asked):
    """A final "no" was true at some moment between question and answer: a deposed actor's may not have been."""
    error, command, ledger = asked.error, asked.command, world.ledger
    if isinstance(error, Overloaded) and sum(_same(command, other.command) for other in ledger.asked) == 1:
        if any(_says(event, command) for event in history.events):
            ledger.wrong(
                "%s: %s was said to be refused for want of room, and it is done", history.conversation_id, shown(command)
            )
        return
    if isinstance(error, OutcomeUnknown | StoreUnavailable | Overloaded):
        return
    if isinstance(error, CorruptStore) and ledger.times_set_back:
        return  # its actor found that the log is not the one it knew, and has begun anew: nothing was decided
    if isinstance(error, Quarantined) and asked.conversation_id in world.ledger.quarantined:
        return
    keys = (*command.lookups(), *command.reasons())
    for place in history.places:
        if asked.from_seq <= place <= asked.to_seq:
            state = history.states[place]
            spec = agent_of(history.conversation_id, history.events).spec
            read = {seq: history.events[seq - 1] for seq in command.reads(state, spec)}
            for now in (world.clock(), world.clock(asked.at)):  # by now, grants may have ended for which there was no room
                stamped = command.stamped(now, spec, history.known(keys, place), read=read)
                try:
                    decide(state, stamped)
                except HoldfastError as refusal:
                    if _alike(refusal, error):
                        return
    ledger.wrong("%s: %s was refused, and it never was true: %r", history.conversation_id, shown(command), error)


def _same(one, other):
    """Whether they are one command, asked by whomever: they lead to the same entries of the log."""
    return one.model_dump(exclude={"spec"}) == other.model_dump(exclude={"spec"})


def _alike(one, other):
    if isinstance(one, StaleCall) and isinstance(other, StaleCall):
        return one.args == other.args
    return type(one) is type(other) and str(one) == str(other)


def _repeated_receipts_agree(ledger):
    first = {}
    for asked in ledger.asked:
        if isinstance(asked.answer, Receipt | Interrupted) and not asked.lost:
            key = (asked.conversation_id, asked.command.model_dump_json(exclude={"spec"}))
            place = asked.answer.model_copy(update={"duplicate": False})
            if first.setdefault(key, place) != place:
                ledger.wrong("%s: receipts of one command differ: %s and %s", asked.conversation_id, first[key], place)
