"""Bugs to plant in summaries that people ask for, as those in `bugs.py`."""

from dataclasses import replace
from unittest import mock

from holdfast.actors.worker import model_outcome
from holdfast.conversation.log import fold, index
from holdfast.conversation.records.events import CompactionRequested, InputSuperseded, TurnCancelled
from holdfast.conversation.records.state import Queued


def a_request_that_is_another_each_time():
    """Nobody remembers under which id a summary was asked for."""
    known = index._facts_of
    return mock.patch.object(
        index, "_facts_of", lambda event, seq: iter(()) if isinstance(event, CompactionRequested) else known(event, seq)
    )


def a_request_that_waits_behind_messages():
    """A request for a summary has the priority of a message."""

    def behind(state):
        if state.compacting:
            return state
        queued = Queued(seq=state.seq + 1)
        return fold._with_input(state, queued).model_copy(update={"compacting": queued.seq})

    return mock.patch.object(fold, "_compaction_requested", behind)


def a_cancelled_summary_that_is_made_after_all():
    """What was cancelled is asked for still, and the next model call serves it."""
    apply = fold._apply

    def stubborn(state, event):
        after = apply(state, event)
        cancelled = isinstance(event, TurnCancelled) and state.turn.compacts
        return after.model_copy(update={"compacting": state.compacting}) if cancelled else after

    return mock.patch.object(fold, "_apply", stubborn)


def an_interruption_that_leaves_a_request():
    """Messages are superseded, and the request for a summary beside them is not."""
    apply = fold._apply

    def blind(state, event):
        after = apply(state, event)
        if not isinstance(event, InputSuperseded) or not state.compacting:
            return after
        queue = tuple(one for one in state.queue if one.seq == state.compacting)
        return after.model_copy(update={"compacting": state.compacting, "queue": queue})

    return mock.patch.object(fold, "_apply", blind)


def a_worker_that_is_not_told_of_a_request():
    """The threshold decides whether a model call is preceded by a summary, whoever has asked for one."""
    asked = model_outcome.asked
    return mock.patch.object(
        model_outcome, "asked", lambda request, spec, reading: asked(replace(request, compact=False), spec, reading)
    )


def a_summary_by_itself_that_nobody_counts():
    """What is no turn uses nothing of a budget."""
    used = fold._used
    return mock.patch.object(fold, "_used", lambda state, event: state if state.turn.compacts else used(state, event))


BY_HAND = (
    a_request_that_is_another_each_time,
    a_request_that_waits_behind_messages,
    a_cancelled_summary_that_is_made_after_all,
    an_interruption_that_leaves_a_request,
    a_worker_that_is_not_told_of_a_request,
    a_summary_by_itself_that_nobody_counts,
)
