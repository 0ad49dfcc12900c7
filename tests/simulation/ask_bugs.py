"""Bugs to plant in turns that ask whether they may go on, as those in `bugs.py`."""

from unittest import mock

from holdfast.conversation.judging import outcomes, progress, stopping
from holdfast.conversation.log import fold
from holdfast.conversation.terms.decisions import DecisionKind


def an_extension_without_end():
    """Whoever lets a turn go on lets it go on for ever."""
    extended = fold._extended
    return mock.patch.object(fold, "_extended", lambda turn, at: extended(turn, at) | {"rounds_from": 10**6})


def a_denial_that_lets_the_turn_go_on():
    """A turn goes on whatever was said to its question."""
    settled = fold._limit_settled

    def deaf(state, call, event):
        return settled(state, call, event.model_copy(update={"decision": DecisionKind.APPROVE}))

    return mock.patch.object(fold, "_limit_settled", deaf)


def calls_that_begin_while_their_turn_asks():
    """The calls of the answer that reaches a bound are taken up as any others."""
    take_up = outcomes._take_up
    return mock.patch.object(outcomes, "_take_up", lambda draft, proposed, seq, **_: take_up(draft, proposed, seq))


def a_turn_that_ends_unasked():
    """A bound ends the turn of an agent that asks first."""
    return mock.patch.object(stopping, "asks_first", return_value=False)


def a_question_that_nobody_ends():
    """A turn that may not go on waits for ever."""
    return mock.patch.object(progress, "_end_stopped", return_value=None)


ASKED = (
    an_extension_without_end,
    a_denial_that_lets_the_turn_go_on,
    calls_that_begin_while_their_turn_asks,
    a_turn_that_ends_unasked,
    a_question_that_nobody_ends,
)
