"""Whatever people do in whatever order: a quorum is never settled by fewer, and by nobody who may not."""

import contextlib
import uuid
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.conversation import Approve, Cancel, Deny, Principal
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.commands import ProposedCall, Resolve
from holdfast.conversation.terms.approvers import Approvers
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.terms.principal import Proof
from holdfast.errors import AlreadyVoted, InvalidDecision, NotPermitted, StaleCall

NAMES = ("ana", "bo", "cy", "di")
ROLES = ("finance", "board")
principals = st.builds(
    Principal, st.sampled_from(NAMES), roles=st.sets(st.sampled_from(ROLES)).map(sorted), proof=st.sampled_from(Proof)
)
approvers = st.builds(
    lambda who, **more: Approvers(*who, **more),
    st.sets(st.sampled_from([*(f"role:{role}" for role in ROLES), *(f"id:{name}" for name in NAMES)])).map(sorted),
    minimum=st.integers(1, 3),
    not_requester=st.booleans(),
    stated=st.booleans(),
)
decisions = st.sampled_from(
    [Approve(), Approve(), Approve(), Approve({"amount": 7}), Approve({"amount": 8}), Deny("no"), Cancel()]
)
steps = st.lists(st.tuples(st.none() | principals, decisions, st.booleans()), max_size=8)


def may(terms: Approvers, who: Principal | None, sender: Principal | None) -> bool:
    """Whether somebody may decide, said once more in other words."""
    if who is None or (who.proof == "stated" and not terms.stated):
        return False
    named = not terms.who or any(
        one == f"id:{who.id}" or (one.startswith("role:") and one.removeprefix("role:") in who.roles) for one in terms.who
    )
    told = sender is not None and (sender.proof != "stated" or terms.stated)
    return named and not (terms.not_requester and not (told and sender.id != who.id))


class Expected:
    """Who has agreed to what is shown now, and what became of the call."""

    def __init__(self, terms: Approvers, sender: Principal | None) -> None:
        self.terms, self.sender = terms, sender
        self.agreed: set[str] = set()
        self.outcome: str | None = None

    def decide(self, who: Principal | None, decision: Approve | Deny | Cancel) -> bool:
        """Whether the decision is taken."""
        if self.outcome is not None or not may(self.terms, who, self.sender) or who is None:
            return False
        if not isinstance(decision, Approve):
            self.outcome = "no"
            return True
        if decision.arguments is not None and self.terms.minimum > 1:
            self.agreed = set()
        elif who.id in self.agreed:
            return False
        self.agreed.add(who.id)
        if len(self.agreed) >= self.terms.minimum:
            self.outcome = "yes"
        return True


@pytest.mark.filterwarnings("ignore")
@settings(deadline=None)
@given(terms=approvers, sender=st.none() | principals, taken=steps)
def test_a_quorum_is_settled_by_so_many_who_may_and_by_nobody_else(
    conversations, terms: Approvers, sender: Principal | None, taken: Iterable[tuple[Principal | None, Approve, bool]]
):
    one = conversations()
    one.start("hello", principal=sender)
    one.begin()
    [call] = one.call(ProposedCall(tool_call_id="call_1", name="refund", arguments='{"amount":5}', approvers=terms.terms))
    expected, shown = Expected(terms, sender), one.suspension(call).suspension_id
    for who, decision, looks in taken:
        suspension = one.state.turn.call(call).suspension
        if looks and suspension is not None:
            shown = suspension.suspension_id
        current = suspension is not None and shown == suspension.suspension_id
        fine = current and expected.decide(who, decision)
        asked = Resolve(
            tool_call_id=call,
            ruling=DecisionRecord.of(decision),
            decision_id=uuid.uuid4().hex,
            suspension_id=shown,
            principal=who,
        )
        if fine:
            one.do(asked)
        else:
            with one.unchanged(), pytest.raises((StaleCall, NotPermitted, AlreadyVoted, InvalidDecision)):
                one.do(asked)
        again = one.state.turn.call(call)
        assert (
            again.status
            is {
                None: CallStatus.AWAITING,
                "yes": CallStatus.RUNNING,
                "no": CallStatus.ERRORED,
            }[expected.outcome]
        )
        if again.suspension is not None:
            assert {vote.by for vote in again.suspension.votes} == expected.agreed
    with contextlib.suppress(StopIteration):
        settled = next(event for event in one.log if event.kind == "suspension_settled" and event.by == "approve")
        assert settled.votes == (terms.minimum if terms.minimum > 1 else 0)
