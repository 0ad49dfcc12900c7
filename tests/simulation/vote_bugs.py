"""Bugs to plant in votes, as those in `bugs.py`: people who may not, votes that count twice, votes that are forgotten."""

from unittest import mock

from holdfast.conversation import fold, suspensions, voting
from holdfast.conversation.approvers import ApproverTerms


def a_decision_of_whoever_comes():
    """Nobody looks who decides."""
    return mock.patch.object(ApproverTerms, "outsider", return_value=None)


def a_person_who_votes_twice():
    """A second vote of one person counts as another's."""
    check = voting.check_vote

    def lenient(state, command, call, ruling):
        suspension = call.suspension
        check(state, command, call.model_copy(update={"suspension": suspension.model_copy(update={"votes": ()})}), ruling)

    return mock.patch.multiple(suspensions, check_vote=lenient)


def a_quorum_of_one():
    """The first who agrees settles what two have to agree to."""
    settle = suspensions.decide_one

    def hasty(draft, command, call, settlement):
        terms = call.approvers
        alone = call if terms is None else call.model_copy(update={"approvers": terms.model_copy(update={"minimum": 1})})
        return settle(draft, command, alone, settlement)

    return mock.patch.multiple(suspensions, decide_one=hasty)


def a_vote_for_arguments_that_were_edited():
    """Who agreed to the arguments before counts for the edited ones, too."""
    return mock.patch.object(suspensions, "is_edit", return_value=False)


def votes_that_the_state_does_not_keep():
    """A vote stands in the log, and the state does not know of it."""
    noted = fold._noted

    def forgetful(state, tool_call_id, vote=None):
        return noted(state, tool_call_id)

    return mock.patch.object(fold, "_noted", forgetful)


VOTING = (
    a_decision_of_whoever_comes,
    a_person_who_votes_twice,
    a_quorum_of_one,
    a_vote_for_arguments_that_were_edited,
    votes_that_the_state_does_not_keep,
)
