"""What somebody tries who wants more than is theirs to decide: each attempt is refused, or decides what it says and no more."""

import pytest

from holdfast.conversation import Answer, Approve, Cancel, Deny, Execution, Principal, Redispatch, SuspensionKind
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.commands import ProposedCall, Resolve, RunRuled
from holdfast.conversation.terms.approvers import Approvers
from holdfast.conversation.terms.decisions import DecisionRecord, Review
from holdfast.conversation.terms.grants import CallTarget, Level, Scope
from holdfast.conversation.terms.principal import Proof
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.errors import AlreadyVoted, BatchRefused, InvalidDecision, NotPermitted, StaleCall

ANA, BO, EVE = (Principal(name, roles=["finance"], proof=Proof.KEY) for name in ("ana", "bo", "eve"))
CFO = Principal("kim", roles=["cfo"], proof=Proof.OIDC)
MALLORY = Principal("mallory", roles=["guest"], proof=Proof.KEY)
TWO = Approvers("role:finance", minimum=2).terms
BOSS = Approvers("role:cfo").terms


def proposed(terms, *, tool="refund", number=1, **more):
    return ProposedCall(tool_call_id=f"call_{number}", name=tool, arguments='{"amount":5}', approvers=terms, **more)


def stands(begun, call):
    return begun.state.turn.call(call).status


def of(begun, call):
    return begun.suspension(call).suspension_id


def test_a_decision_id_of_somebody_else_casts_no_vote(begun):
    [call] = begun.call(proposed(TWO))
    given = begun.resolve(Approve(), call, principal=ANA, decision_id="d-1").reply
    with begun.unchanged():
        again = begun.resolve(Approve(), call, principal=ANA, decision_id="d-1").reply
        with pytest.raises(InvalidDecision, match="another decision"):  # no receipt for what is not counted
            begun.resolve(Approve(), call, principal=BO, decision_id="d-1")
    assert (again.seq, again.duplicate, again.settled, again.votes) == (given.seq, True, False, 1)
    assert stands(begun, call) is CallStatus.AWAITING


def test_a_vote_before_an_edit_is_none_for_the_edited_arguments(begun):
    [call] = begun.call(proposed(TWO))
    before = of(begun, call)
    begun.resolve(Approve(), call, principal=ANA)
    begun.resolve(Approve({"amount": 99}), call, principal=BO)
    with begun.unchanged(), pytest.raises(AlreadyVoted):
        begun.resolve(Approve(), call, principal=BO, suspension_id=of(begun, call))
    with begun.unchanged(), pytest.raises(StaleCall):
        begun.resolve(Approve(), call, principal=ANA, suspension_id=before)
    with begun.unchanged(), pytest.raises(InvalidDecision, match="suspended 2 times"):
        begun.do(Resolve(tool_call_id=call, ruling=DecisionRecord.of(Approve()), decision_id="d-9", principal=EVE))
    assert stands(begun, call) is CallStatus.AWAITING


def test_two_who_edit_in_turn_never_agree_with_themselves(begun):
    [call] = begun.call(proposed(TWO))
    for amount in (1, 2, 3):
        begun.resolve(Approve({"amount": amount}), call, principal=ANA, suspension_id=of(begun, call))
        assert (stands(begun, call), len(begun.suspension(call).votes)) == (CallStatus.AWAITING, 1)


def test_an_answer_in_place_of_an_approval_takes_as_many(conversations):
    spec = conversations.desk_with(refund={"decisions": ("approve", "edit", "deny", "answer")})
    begun = conversations(spec=spec).begun()
    [call] = begun.call(proposed(TWO))
    assert not begun.resolve(Answer("done"), call, principal=ANA).reply.settled
    for other in (Answer("something else"), Approve()):
        with begun.unchanged(), pytest.raises(InvalidDecision, match="another answer"):
            begun.resolve(other, call, principal=BO)
    assert begun.resolve(Answer("done"), call, principal=BO).reply.settled


def test_several_decisions_at_once_bring_nobody_in(begun):
    mine, others = begun.call(proposed(None), proposed(BOSS, number=2))
    with begun.unchanged(), pytest.raises(BatchRefused) as refused:
        begun.resolve_many({mine: Approve(), others: Approve()}, principal=MALLORY)
    [(_, error)] = refused.value.errors.items()
    assert isinstance(error, NotPermitted)


def test_a_scope_for_everything_lets_nothing_go_that_is_for_others(begun):
    mine, others, both = begun.call(proposed(None), proposed(BOSS, number=2), proposed(TWO, number=3))
    begun.resolve(Approve(scope=Scope("tool", "*", level="admin", everything=True)), mine, principal=MALLORY)
    assert {stands(begun, call) for call in (others, both)} == {CallStatus.AWAITING}
    begun.finish(mine)
    with begun.unchanged(), pytest.raises(InvalidDecision, match="several people must agree"):
        begun.resolve(Approve(scope=Scope("tool", "*", level="admin", everything=True)), both, principal=ANA)


@pytest.mark.parametrize("execution", list(Execution))
def test_a_grant_covers_no_call_that_a_rule_leaves_to_others_before_its_run(conversations, execution):
    spec = conversations.desk_with().model_copy(update={"execution": execution})
    begun = conversations(spec=spec).begun()
    [first] = begun.call(proposed(None))
    begun.resolve(Approve(scope=Scope("tool", "*", level="admin", everything=True)), first, principal=MALLORY)
    begun.finish(first)
    [call] = begun.call(proposed(None, number=2))
    ruled = RuleVerdict(effect=RuleEffect.ASK, rule="large", approvers=BOSS)
    begun.do(RunRuled(effect_id=begun.run(call).effect_id, ruled=ruled))
    assert begun.suspension(call).kind is SuspensionKind.APPROVAL
    with begun.unchanged(), pytest.raises(NotPermitted):
        begun.resolve(Approve(), call, principal=MALLORY)
    begun.resolve(Approve(), call, principal=CFO)
    assert begun.run(call).grants == ()


def test_a_lost_run_is_sent_again_by_those_alone_who_may_approve_it(begun):
    [call] = begun.call(proposed(TWO, tool="ship"))
    begun.resolve(Approve(), call, principal=ANA)
    begun.resolve(Approve(), call, principal=BO)
    begun.lose(call)
    assert begun.suspension(call).kind is SuspensionKind.LOST
    for decision in (Redispatch(), Answer("shipped"), Cancel(), Deny("x")):
        with begun.unchanged(), pytest.raises(NotPermitted):
            begun.resolve(decision, call, principal=MALLORY, suspension_id=of(begun, call))
    assert not begun.resolve(Redispatch(), call, principal=ANA, suspension_id=of(begun, call)).reply.settled
    with begun.unchanged(), pytest.raises(AlreadyVoted):
        begun.resolve(Redispatch(), call, principal=ANA, suspension_id=of(begun, call))


def test_a_body_that_asks_for_a_review_leaves_it_to_those_whom_its_tool_names(begun):
    [call] = begun.call(proposed(BOSS, tool="lookup"))
    begun.suspend(call)
    with begun.unchanged(), pytest.raises(NotPermitted):
        begun.resolve(Review("allow"), call, principal=MALLORY)
    earlier = of(begun, call)
    begun.resolve(Review("allow"), call, principal=CFO)
    with begun.unchanged(), pytest.raises(StaleCall):
        begun.resolve(Review("block"), call, principal=CFO, suspension_id=earlier)


def test_an_edit_in_the_last_moment_does_not_move_the_deadline(begun):
    [call] = begun.call(proposed(TWO))
    begun.resolve(Approve(), call, principal=ANA)
    ends = begun.suspension(call).expires_at
    begun.resolve(Approve({"amount": 7}), call, principal=BO, at=ends - 1)
    assert begun.suspension(call).expires_at == ends
    begun.wake(at=ends)
    with begun.unchanged(), pytest.raises(StaleCall):
        begun.do(Resolve(tool_call_id=call, ruling=DecisionRecord.of(Approve()), decision_id="d-9", principal=ANA))
    assert "nobody approved this call in time" in begun.result(call)["error"]


def test_a_grant_of_one_approver_covers_no_call_that_several_have_to_agree_to(begun):
    targets = (CallTarget(kind="path", value="src/a", level=Level.WRITE),)
    [call] = begun.call(proposed(BOSS, targets=targets))
    begun.resolve(Approve(scope=Scope("path", "src/**", level="write")), call, principal=CFO)
    begun.finish(call)
    [others] = begun.call(proposed(TWO, number=2, targets=targets))
    assert stands(begun, others) is CallStatus.AWAITING
