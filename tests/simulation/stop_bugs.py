"""Bugs to plant in stops, as those in `bugs.py`: turns that go on beyond their bounds, and last words with tools."""

from unittest import mock

from holdfast.conversation.judging import deadlines, machine, outcomes, progress, stopping
from holdfast.conversation.log import fold, work
from holdfast.conversation.records.commands import ModelReplied
from holdfast.conversation.records.state import Turn


def a_call_for_last_words_like_any_other():
    """A worker is not told that a call is for last words: it offers tools, and says nothing of the end."""
    call_model = work.CallModel
    return mock.patch.object(work, "CallModel", lambda **said: call_model(**said | {"stopped": ""}))


def last_words_that_are_acted_on():
    """The calls that a model asks for with its last words are carried out."""
    replied = outcomes.model_replied

    def eager(state, command):
        if state.turn is not None and state.turn.stopping is not None and command.calls:
            state = state.model_copy(update={"turn": state.turn.model_copy(update={"stopping": None, "counted": False})})
            state = state.model_copy(update={"turn": state.turn.model_copy(update={"rounds": 0, "errors": 0, "asked": ()})})
        return replied(state, command)

    return mock.patch.dict(machine.JUDGES, {ModelReplied: eager})


def last_words_without_end():
    """Whoever reaches a bound is asked for last words once more after each."""
    return mock.patch.object(outcomes, "stop", lambda draft, reached, calls=(): _again(draft, reached, calls))


def _again(draft, reached, calls):
    turn = draft.state.turn
    draft.state = draft.state.model_copy(update={"turn": turn.model_copy(update={"stopping": None})})
    progress.stop(draft, reached, calls)


def calls_that_begin_before_the_bound_is_judged():
    """The calls of an answer that reaches a bound run."""
    return mock.patch.object(stopping, "by_answer", return_value=None)


def a_bound_that_counts_the_turns_before():
    """What a turn has used is added to that of the next one."""
    started = fold._turn_started
    before = {}

    def counting(state, event):
        after = started(state, event)
        rounds = before.get(state.conversation_id, 0)
        return after.model_copy(update={"turn": after.turn.model_copy(update={"rounds": rounds})})

    def over(state, event, outcome, **more):
        before[state.conversation_id] = state.turn.rounds
        return ended(state, event, outcome, **more)

    ended = fold._turn_over
    return mock.patch.multiple(fold, _turn_started=counting, _turn_over=over)


def results_that_nobody_counts():
    """Results that failed are not counted."""
    resolved = fold._call_resolved

    def careless(state, event):
        after = resolved(state, event)
        return after.model_copy(update={"turn": after.turn.model_copy(update={"errors": 0})})

    return mock.patch.object(fold, "_call_resolved", careless)


def a_cost_of_the_last_answer_alone():
    """What the answers before have cost is forgotten."""
    answered = fold._answered

    def forgetful(state, event):
        before = state.model_copy(update={"turn": state.turn.model_copy(update={"nano_usd": 0})})
        return answered(before, event)

    return mock.patch.object(fold, "_answered", forgetful)


def a_time_that_goes_on_while_people_are_asked():
    """The time of a turn passes while it waits for people."""
    return mock.patch.object(fold, "_timed", lambda state, *_: state)


def a_time_that_nobody_gives_back():
    """What a turn has waited for people is not added to its time."""
    timed = fold._timed

    def stingy(state, turn, at):
        after = timed(state, turn, at)
        return after.model_copy(update={"turn": after.turn.model_copy(update={"ends_at": turn.ends_at})})

    return mock.patch.object(fold, "_timed", stingy)


def a_time_that_nobody_watches():
    """The time of a turn is looked at between its steps, and by no deadline."""
    return mock.patch.object(Turn, "due_at", property(lambda _: None))


def a_stop_that_leaves_calls_open():
    """What runs and what waits is not ended with the turn."""

    def hasty(draft):
        turn = draft.state.turn
        reached = None if turn is None else stopping.by_time(turn, draft.spec, draft.now)
        if reached is not None:
            progress.stop(draft, reached)

    return mock.patch.object(deadlines, "_stop_in_time", hasty)


STOPPED = (
    a_call_for_last_words_like_any_other,
    last_words_that_are_acted_on,
    last_words_without_end,
    calls_that_begin_before_the_bound_is_judged,
    a_bound_that_counts_the_turns_before,
    results_that_nobody_counts,
    a_cost_of_the_last_answer_alone,
    a_time_that_goes_on_while_people_are_asked,
    a_time_that_nobody_gives_back,
    a_time_that_nobody_watches,
    a_stop_that_leaves_calls_open,
)
