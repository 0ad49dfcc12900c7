"""What must be true of parents and children when a simulation is over, held against the logs of both."""

from holdfast.conversation import SettledBy
from holdfast.conversation.log.owed import END, START, TELL
from holdfast.conversation.records.events import (
    CallEscalated,
    CallResolved,
    CallSuspended,
    Ended,
    MessageAccepted,
    SuspensionSettled,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    VoteCast,
)
from holdfast.conversation.text import jsontext
from holdfast.persistence.views import arguments_in

from . import shop

TERMINAL = (TurnCompleted, TurnFailed, TurnCancelled)


def children_do_what_is_asked(world, histories):
    """Each wait for a child settles once, with the child's end; each child has its wait, and ends with its first turn."""
    for history in histories.values():
        if history.events:
            _child(world.ledger, history, histories)
            for event in [] if world.ledger.times_set_back else history.of(CallSuspended):
                if event.source:
                    _wait(world, history, event, histories.get(event.source))
            _few_stand_below(world.ledger, history, histories)


def _child(ledger, history, histories):
    parent, name = history.events[0].parent, history.conversation_id
    if parent is None:
        if any((event.request_id or "").startswith("msg_") for event in history.of(Ended)):
            ledger.wrong("%s: it was ended for the sake of a wait that is not for it", name)
        return
    for event in history.of(CallSuspended, CallEscalated):
        if event.expires_at > parent.must_end_by:
            ledger.wrong("%s: %s may wait longer than its parent", name, event.tool_call_id)
    for event in history.of(SuspensionSettled, VoteCast):
        if event.decision_id and event.at >= parent.must_end_by:
            ledger.wrong("%s: %s is decided, and its parent waits no longer", name, event.tool_call_id)
    first = next((seq for seq, event in enumerate(history.events, 1) if _ends_a_turn(event)), None)
    if not isinstance(history.events[-1], Ended):
        ledger.wrong("%s: it is at rest, and has not ended", name)
    elif len(history.of(TurnStarted)) > 1 or (first and any(first <= place < len(history.events) for place in history.places)):
        ledger.wrong("%s: it goes on after its first turn", name)
    if not ledger.times_set_back:
        _has_its_wait(ledger, history, histories.get(parent.conversation_id))


def _has_its_wait(ledger, history, above):
    """A child is what a wait of its parent asks for."""
    name, started = history.conversation_id, history.events[0]
    parent, known = started.parent, (name, started.parent.suspension_id)
    waits = [] if above is None else above.of(CallSuspended)
    wait = next((event for event in waits if (event.source, event.suspension_id) == known), None)
    if wait is None:
        ledger.wrong("%s: nobody has asked for it", name)
        return
    root, message = above.events[0], history.of(MessageAccepted)[0]
    path = [(one.conversation_id, one.agent) for one in (() if root.parent is None else root.parent.path)]
    task = arguments_in(above.events[wait.arguments_at - 1], wait.tool_call_id)["task"]
    found = (started.agent, message.text, started.context, started.attended, parent.must_end_by)
    due = (wait.tool.removeprefix("ask_"), task, root.context, root.attended, wait.expires_at)
    if found != due:
        ledger.wrong("%s: it is %s, and its parent asks for %s", name, found, due)
    above_it = [(one.conversation_id, one.agent) for one in parent.path]
    if above_it != [*path, (above.conversation_id, root.agent)] or started.agent in [agent for _, agent in above_it]:
        ledger.wrong("%s: it is %s's, below %s", name, started.agent, above_it)


def _wait(world, history, wait, child):
    """A wait is settled by its child's end, or its child is ended; what one owes the other was delivered."""
    ledger, name, source = world.ledger, history.conversation_id, wait.source
    settled = next((one for one in history.of(SuspensionSettled) if one.suspension_id == wait.suspension_id), None)
    ours = child is not None and child.events and child.events[0].parent is not None
    if settled is None:
        return  # that it was never settled is said elsewhere
    if settled.by is SettledBy.SOURCE:
        result = next(one for one in history.of(CallResolved) if one.tool_call_id == wait.tool_call_id)
        told = jsontext.loads(result.content)
        if (told["conversation"], told["ok"]) != (source, result.ok) or not _is_end(
            ledger, told, settled, child if ours else None
        ):
            ledger.wrong("%s: %s has the result %s, and its child did not end so", name, wait.tool_call_id, result.content)
    due = [(name, START, source), *([] if settled.source_ended else [(name, END, source)])]
    for one in [*due, *([(source, TELL, name)] if ours else [])]:
        if one not in world.children.delivered:
            ledger.wrong("%s: it owed a %s to %s, which was not delivered", *one)


def _is_end(ledger, told, settled, child):
    """Whether a parent was told how its child ended; of one in quarantine, or that could not be started, that it failed."""
    if not settled.source_ended:
        return not told["ok"] and (child is None or child.conversation_id in ledger.quarantined)
    if child is None:
        return False
    end = next((event for event in child.events if _ends_a_turn(event) or isinstance(event, Ended)), None)
    if isinstance(end, TurnCompleted):
        return told["ok"] and told["result"] == (child.events[end.reply_seq - 1].content or "")
    return not told["ok"] and (not isinstance(end, TurnFailed) or end.error in told["error"])


def _ends_a_turn(event):
    """Whether an event ends a turn; a summary by itself, which may be cancelled, is none."""
    return isinstance(event, TERMINAL) and not event.turn_id.startswith("c")


def _few_stand_below(ledger, history, histories):
    """One turn of a conversation that nobody else has started has no more below it than the limits say."""
    if history.events[0].parent is not None:
        return
    below = 0
    for event in history.events:
        if isinstance(event, TurnStarted):
            below = 0
        elif isinstance(event, CallSuspended) and event.source:
            below += _tree(histories, event.source)
            if below > shop.LIMITS.descendants:
                ledger.wrong("%s: %d conversations stand below one turn", history.conversation_id, below)


def _tree(histories, name):
    """How many conversations were asked for, from this one down; one that took a child's id has asked for its own."""
    found = histories.get(name)
    waits = [] if found is None or found.events[0].parent is None else found.of(CallSuspended)
    return 1 + sum(_tree(histories, event.source) for event in waits if event.source)
