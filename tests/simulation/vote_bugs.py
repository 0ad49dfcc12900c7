"""Bugs to plant in votes, as those in `bugs.py`: people who may not, votes that count twice, votes that are forgotten."""

import dataclasses
from unittest import mock

from holdfast.conversation.judging import deciding
from holdfast.conversation.judging.deciding import Fitted
from holdfast.conversation.log import fold
from holdfast.conversation.terms.approvers import ApproverTerms


def a_decision_of_whoever_comes():
    """Nobody looks who decides."""
    return mock.patch.object(ApproverTerms, "outsider", return_value=None)


def a_person_who_votes_twice():
    """A second vote of one person counts as another's."""
    check = deciding.check_vote

    def lenient(draft, fitted):
        check(draft, dataclasses.replace(fitted, suspension=fitted.suspension.model_copy(update={"votes": ()})))

    return mock.patch.multiple(deciding, check_vote=lenient)


def a_quorum_of_one():
    """The first who agrees settles what two have to agree to."""
    settle = deciding.settle

    def hasty(draft, fitted):
        call, terms = fitted.call, fitted.call.approvers
        alone = call if terms is None else call.model_copy(update={"approvers": terms.model_copy(update={"minimum": 1})})
        return settle(draft, dataclasses.replace(fitted, call=alone))

    return mock.patch.multiple(deciding, settle=hasty)


def a_vote_for_arguments_that_were_edited():
    """Who agreed to the arguments before counts for the edited ones, too."""
    settle = deciding.settle

    class Unedited(Fitted):
        """A decision that seems to leave the arguments as they are."""

        __slots__ = ()
        is_edit = property(lambda self: False)  # noqa: ARG005 - whatever it says

    def heedless(draft, fitted):
        return settle(draft, Unedited(*(getattr(fitted, one.name) for one in dataclasses.fields(fitted))))

    return mock.patch.multiple(deciding, settle=heedless)


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
