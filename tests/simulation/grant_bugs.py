"""Bugs to plant in grants, as those in `bugs.py`: grants that cover more than they say, or that count when they have ended."""

from unittest import mock

from holdfast.actors.worker import tool_run
from holdfast.conversation.judging import deciding, progress
from holdfast.conversation.log import fold
from holdfast.conversation.records.events import GrantRevoked
from holdfast.conversation.terms.grants import Level, covering
from holdfast.persistence import MemoryStore


def a_claim_in_any_epoch():
    """The store lets a run be claimed whatever was revoked since it was asked for."""
    claim = MemoryStore.claim

    async def heedless(self, *args, epoch=None, **kwargs):
        return await claim(self, *args, **kwargs)

    return mock.patch.object(MemoryStore, "claim", heedless)


def a_revocation_that_keeps_the_epoch():
    """A revocation takes the grant out of the state alone: what was let run by it can still be claimed."""
    apply = fold._apply

    def keeping(state, event):
        after = apply(state, event)
        return after.model_copy(update={"grants_epoch": state.grants_epoch}) if isinstance(event, GrantRevoked) else after

    return mock.patch.object(fold, "_apply", keeping)


def a_claim_after_the_end_of_a_grant():
    """Nobody tells the store by when a run that goes on by a grant must begin."""
    earliest = tool_run.earliest
    return mock.patch.object(tool_run, "earliest", lambda *times: earliest(*times[:2]))


def a_grant_to_read_that_lets_write():
    """A grant covers what its pattern covers, however far the call goes with it."""
    return mock.patch.object(Level, "includes", return_value=True)


def a_grant_for_one_target_of_two():
    """A call runs where any of what it touches is covered."""

    def any_of(grants, targets, *, at, approvers=None):
        found = (covering(grants, [target], at=at, approvers=approvers) for target in targets)
        return next((one for one in found if one is not None), None)

    return mock.patch.object(progress, "covering", any_of)


def siblings_that_wait_on():
    """A grant counts for calls that come later, and those that wait already go on waiting."""
    return mock.patch.object(deciding, "release")


GRANTED = (
    a_claim_in_any_epoch,
    a_revocation_that_keeps_the_epoch,
    a_claim_after_the_end_of_a_grant,
    a_grant_to_read_that_lets_write,
    a_grant_for_one_target_of_two,
    siblings_that_wait_on,
)
