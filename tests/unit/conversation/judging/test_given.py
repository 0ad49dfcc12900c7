"""What one principal has given: its grants and votes end together, and a grant whose giver may not decide any more asks."""

import pytest

from holdfast.conversation import Approve, Principal, SuspensionKind
from holdfast.conversation.log.auditing import is_audited
from holdfast.conversation.log.index import has_given
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.commands import ProposedCall, Resolve, RevokeGiven, RunRuled
from holdfast.conversation.terms.approvers import Approvers
from holdfast.conversation.terms.decisions import DecisionRecord
from holdfast.conversation.terms.grants import Scope
from holdfast.conversation.terms.principal import Proof
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.errors import InvalidInput

BO = Principal("bo", roles=["finance"], proof=Proof.KEY)
EVE = Principal("eve", roles=["finance"], proof=Proof.KEY)
TWO = Approvers("role:finance", minimum=2).terms
REFUNDS = Scope("tool", "refund", level="execute")


def decided(begun, who, call, decision=None, decision_id=None):
    suspension_id = begun.suspension(call).suspension_id
    ruling = DecisionRecord.of(decision or Approve())
    begun.do(
        Resolve(
            tool_call_id=call,
            ruling=ruling,
            decision_id=decision_id or f"{who.id}-{call}",
            suspension_id=suspension_id,
            principal=who,
        )
    )


def for_two(number):
    return ProposedCall(tool_call_id=f"call_{number}", name="ship", arguments='{"amount":5}', approvers=TWO)


@pytest.fixture
def given(begun):
    """A conversation in which bo and eve have given a grant each and bo has voted; one run by bo's grant is outstanding."""
    first, second, third = begun.call("refund", "refund", for_two(3))
    decided(begun, BO, first, Approve(scope=REFUNDS))
    decided(begun, BO, third)
    return begun, second, third


def test_what_a_principal_has_given_ends_at_once_and_the_votes_of_others_stay(given):
    begun, run, voted = given
    [grant] = begun.state.grants
    assert has_given(begun.state)
    receipt = begun.do(RevokeGiven(request_id="r-1", by="Bo", reason="gone")).reply
    event = begun.log[-1]
    assert (event.kind, event.grants, event.reason, receipt.seq) == (
        "given_revoked",
        (grant.grant_id,),
        "gone",
        begun.state.seq,
    )
    assert [vote.suspension_id for vote in event.votes] == [begun.suspension(voted).suspension_id]
    assert is_audited(event)
    assert receipt.audit_head == begun.state.audit_head
    assert begun.state.grants == ()
    assert begun.suspension(voted).votes == ()
    assert not has_given(begun.state)
    assert begun.run(run).grants_epoch == 1  # what it let run is refused at its claim


def test_a_vote_that_was_withdrawn_does_not_count(given):
    begun, _, voted = given
    begun.do(RevokeGiven(request_id="r-1", by="bo", proof=Proof.KEY))
    decided(begun, EVE, voted)
    assert begun.state.turn.call(voted).status is CallStatus.AWAITING
    assert [vote.by for vote in begun.suspension(voted).votes] == ["eve"]
    decided(begun, BO, voted, decision_id="again")
    assert begun.state.turn.call(voted).status is CallStatus.RUNNING


@pytest.mark.parametrize(("by", "proof"), [("eve", None), ("bo", Proof.OIDC), ("", None)])
def test_whoever_has_given_nothing_so_proven_is_refused_and_nothing_changes(given, by, proof):
    begun, _, _ = given
    before = begun.state
    with pytest.raises(InvalidInput, match="has no grant and no open vote"):
        begun.do(RevokeGiven(request_id="r-1", by=by, proof=proof))
    assert begun.state == before


def test_the_same_revocation_again_gives_the_same_receipt_and_another_is_refused(given):
    begun, _, _ = given
    first = begun.do(RevokeGiven(request_id="r-1", by="bo")).reply
    again = begun.do(RevokeGiven(request_id="r-1", by="bo")).reply
    assert (again.seq, again.duplicate, again.audit_head) == (first.seq, True, first.audit_head)
    with pytest.raises(InvalidInput, match="already used"):
        begun.do(RevokeGiven(request_id="r-1", by="eve"))


def test_a_run_names_who_gave_its_grant_by_an_api_key(given):
    begun, run, _ = given
    [grant] = begun.state.grants
    assert begun.run(run).givers == ((grant.grant_id, "bo"),)


def test_a_run_whose_giver_may_not_decide_any_more_asks_and_the_grant_is_over(given):
    begun, run, _ = given
    [grant] = begun.state.grants
    ruled = RuleVerdict(effect=RuleEffect.ASK, reason="gone", lapsed=(grant.grant_id,))
    begun.do(RunRuled(effect_id=begun.run(run).effect_id, ruled=ruled))
    assert begun.suspension(run).kind is SuspensionKind.APPROVAL
    assert begun.state.grants == ()
    [lapsed] = [event for event in begun.log if event.kind == "given_revoked"]
    assert (lapsed.by, lapsed.proof, lapsed.grants) == ("bo", Proof.KEY, (grant.grant_id,))
    assert (lapsed.votes, lapsed.request_id) == ((), None)


def test_a_run_that_another_grant_covers_goes_on_by_that(begun):
    first, second, third = begun.call("refund", "ship", "refund")
    decided(begun, EVE, second, Approve(scope=Scope("tool", "*", level="execute", everything=True)))
    begun.do(RevokeGiven(request_id="r-1", by="eve"))
    assert begun.suspension(first) is None  # it was let go meanwhile
    decided_again = RuleVerdict(effect=RuleEffect.ASK, lapsed=("g-gone",))
    begun.do(RunRuled(effect_id=begun.run(first).effect_id, ruled=decided_again))
    decided(begun, BO, first, Approve(scope=REFUNDS))
    begun.do(RunRuled(effect_id=begun.run(third).effect_id, ruled=RuleVerdict(effect=RuleEffect.ASK)))
    [grant] = begun.state.grants
    assert begun.run(third).givers == ((grant.grant_id, "bo"),)
