"""Bugs to plant in what is sent, in the shape of replies and in overrides, as those in `bugs.py`."""

from dataclasses import replace
from unittest import mock

from holdfast.actors.worker import model_outcome
from holdfast.conversation import window
from holdfast.conversation.judging import outcomes, shaping
from holdfast.conversation.log import fold, transcript
from holdfast.conversation.records.state import Turn


def a_window_that_takes_no_steps():
    """All of a conversation is sent, however much that is."""
    settle = window.Walk._settle

    def lazy(walk, **how):
        walk._budget, budget = None, walk._budget
        settle(walk, **how)
        walk._budget = budget

    return mock.patch.multiple(window.Walk, _settle=lazy)


def a_window_that_parts_results_from_calls():
    """A result is left out, or kept, apart from its call."""
    return mock.patch.object(window._Group, "goes_on_with", return_value=False)


def a_window_without_its_question():
    """Of a turn that is left out in part, what asked for it is left out, too."""
    leave_out = window.Walk._leave_out

    def forgetful(walk, group):
        leave_out(walk, group)
        if walk._asked is not None:
            walk._drop(walk._asked)
            walk._asked = None

    return mock.patch.object(window.Walk, "_leave_out", forgetful)


def a_summary_that_is_not_sent():
    """Nothing stands in the place of the messages that were summarised."""
    begin = window.Walk._begin_behind

    def silent(walk, compacted):
        begin(walk, compacted)
        walk._head = None

    return mock.patch.object(window.Walk, "_begin_behind", silent)


def a_model_call_that_a_summary_does_not_rename():
    """The model call behind a summary has the id of the one that summarised."""
    return mock.patch.object(Turn, "model_effect_id", property(lambda turn: f"{turn.turn_id}.m{turn.model_calls + 1}"))


def any_reply_that_fits():
    """Whatever a model says is taken for an object of its agent's shape."""
    return mock.patch.object(shaping, "misfit", lambda spec, *_: "" if spec is not None and spec.reply is not None else None)


def repairs_without_end():
    """Nobody counts how often a model is asked again."""
    answered = fold._answered

    def careless(state, event):
        after = answered(state, event)
        return after.model_copy(update={"turn": after.turn.model_copy(update={"misfits": 0})})

    return mock.patch.object(fold, "_answered", careless)


def a_shaped_reply_that_the_turn_goes_on_after():
    """The model is called again after a reply that fits."""

    def eager(draft, proposed, misfit):
        shaped(draft, proposed, misfit or "it is too short")

    shaped = outcomes._shaped
    return mock.patch.object(outcomes, "_shaped", eager)


def overrides_that_nobody_looks_at():
    """A turn is asked for as its agent says, whatever its message overrides."""
    asked = model_outcome.asked

    def blind(request, spec, reading):
        return asked(request, spec, replace(reading, overrides=None))

    return mock.patch.object(model_outcome, "asked", blind)


def overrides_of_the_turn_before():
    """What a message overrides holds for the turns after it, too."""
    add = transcript.Transcript.add

    def sticky(kept, seq, event):
        before = kept.overrides
        add(kept, seq, event)
        kept.overrides = kept.overrides or before

    return mock.patch.object(transcript.Transcript, "add", sticky)


def overrides_that_nobody_allows():
    """Whatever a message overrides is done."""
    return mock.patch.object(model_outcome, "problem_of", return_value=None)


WINDOWED = (
    a_window_that_takes_no_steps,
    a_window_that_parts_results_from_calls,
    a_window_without_its_question,
    a_summary_that_is_not_sent,
    a_model_call_that_a_summary_does_not_rename,
    any_reply_that_fits,
    repairs_without_end,
    a_shaped_reply_that_the_turn_goes_on_after,
    overrides_that_nobody_looks_at,
    overrides_of_the_turn_before,
    overrides_that_nobody_allows,
)
