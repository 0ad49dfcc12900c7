"""Bugs to plant in what is done with calls that clients carry out, as those in `bugs.py`."""

import contextlib
from unittest import mock

from holdfast.conversation import Claim, Resolve
from holdfast.conversation.judging import clients, deadlines, deciding, judgement, machine
from holdfast.conversation.log import fold
from holdfast.conversation.records.events import CallGivenBack


def _judged(command, judge):
    return mock.patch.dict(machine.JUDGES, {command: judge})


def _without_claims(state):
    """The state, as if no client had claimed anything."""
    for call in state.calls.awaiting():
        if call.suspension is not None and call.suspension.claim is not None:
            state = fold._with_suspension(state, call.tool_call_id, claim=None)
    return state


def a_claim_of_what_is_claimed():
    """A client claims what another one carries out."""
    judge = clients.claim
    return _judged(Claim, lambda state, command: judge(_without_claims(state), command))


def an_answer_of_another_client():
    """Whoever answers a claimed call settles it."""
    judge = deciding.resolve
    return _judged(Resolve, lambda state, command: judge(_without_claims(state), command))


def a_client_taken_for_gone():
    """A client that has claimed a call counts as gone at the first look."""
    look = clients.look

    def hasty(draft, call, suspension, present):
        return look(draft, call, suspension, () if suspension.claim is not None else present)

    return _looking(hasty)


def a_client_that_is_never_missed():
    """A client that is gone keeps its calls until their deadlines."""
    look = clients.look

    def patient(draft, call, suspension, present):
        return draft.now + 60_000 if suspension.claim is not None else look(draft, call, suspension, present)

    return _looking(patient)


def nobody_though_somebody_is_there():
    """A call fails for want of a client at the first look, whoever is attached."""
    look = clients.look

    def blind(draft, call, suspension, present):
        return look(draft, call, suspension, present if suspension.claim is not None else ())

    return _looking(blind)


@contextlib.contextmanager
def _looking(look):
    with contextlib.ExitStack() as stack:
        for module in (clients, deadlines):
            if hasattr(module, "look"):
                stack.enter_context(mock.patch.object(module, "look", look))
        yield


def a_call_given_back_that_is_as_new():
    """What a client gave back forgets that it was claimed: the next handler takes itself for the first."""
    evolve = fold.evolve

    def forgetful(state, event):
        after = evolve(state, event)
        if isinstance(event, CallGivenBack) and after.calls.of(event.tool_call_id) is not None:
            call = after.calls.of(event.tool_call_id)
            return fold._with_call(after, call.model_copy(update={"claims": 0}))
        return after

    return mock.patch.object(judgement, "evolve", forgetful)


DEVICES = (
    a_claim_of_what_is_claimed,
    an_answer_of_another_client,
    a_client_taken_for_gone,
    a_client_that_is_never_missed,
    nobody_though_somebody_is_there,
    a_call_given_back_that_is_as_new,
)
