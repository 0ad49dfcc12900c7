"""Bugs to plant in deadlines, as those in `bugs.py`: stages that are skipped, votes that outlive theirs."""

from unittest import mock

from holdfast.conversation.judging import deadlines
from holdfast.conversation.log import fold


def a_default_before_its_stage():
    """At the first deadline the default decides, whoever is to be asked before."""
    terms_of = deadlines._on_timeout

    def hasty(draft, call, suspension):
        return terms_of(draft, call, suspension).model_copy(update={"stages": ()})

    return mock.patch.object(deadlines, "_on_timeout", hasty)


def a_vote_that_outlives_its_escalation():
    """Who agreed before others were asked counts among those."""
    escalated = fold._escalated

    def kept(state, event):
        votes = state.calls.of(event.tool_call_id).suspension.votes
        return fold._with_suspension(escalated(state, event), event.tool_call_id, votes=votes)

    return mock.patch.object(fold, "_escalated", kept)


STAGED = (a_default_before_its_stage, a_vote_that_outlives_its_escalation)
