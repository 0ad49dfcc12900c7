"""A call whose arguments a person has edited touches what its tool did not say: no grant covers it any more."""

import pytest

from holdfast.conversation import Answer, Approve, Principal, SuspensionKind
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.commands import ProposedCall, RunRuled
from holdfast.conversation.terms.approvers import Approvers
from holdfast.conversation.terms.grants import CallTarget, Level, Scope
from holdfast.conversation.terms.principal import Proof
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict

ANA = Principal("ana", roles=["finance"], proof=Proof.OIDC)
BO = Principal("bo", roles=["finance"], proof=Proof.KEY)
FINANCE = Approvers("role:finance").terms
SOURCES = Scope("path", "src/**", level="write")
ELSEWHERE = {"amount": 6}


def touching(path, *, terms=None, number=1, tool="refund"):
    targets = (CallTarget(kind="path", value=path, level=Level.WRITE),)
    return ProposedCall(tool_call_id=f"call_{number}", name=tool, arguments='{"amount":5}', targets=targets, approvers=terms)


def asked_again(begun, call):
    """A rule that was published after the approval of edited arguments leaves them to finance."""
    run = begun.run(call)
    begun.do(RunRuled(effect_id=run.effect_id, ruled=RuleVerdict(effect=RuleEffect.ASK, rule="large", approvers=FINANCE)))


def test_a_grant_that_stands_does_not_cover_edited_arguments_that_others_are_asked_about(begun):
    granting, edited = begun.call(touching("src/a", terms=FINANCE), touching("src/b", number=2))
    begun.resolve(Approve(ELSEWHERE), edited)
    begun.resolve(Approve(scope=SOURCES), granting, principal=ANA)
    asked_again(begun, edited)
    assert begun.state.turn.call(edited).status is CallStatus.AWAITING
    assert begun.suspension(edited).kind is SuspensionKind.APPROVAL


def test_a_grant_that_is_given_later_does_not_cover_edited_arguments_that_wait(begun):
    granting, edited = begun.call(touching("src/a", terms=FINANCE), touching("src/b", number=2))
    begun.resolve(Approve(ELSEWHERE), edited)
    asked_again(begun, edited)
    begun.resolve(Approve(scope=SOURCES), granting, principal=ANA)
    assert begun.state.turn.call(edited).status is CallStatus.AWAITING
    assert begun.state.turn.call(edited).targets == ()


def test_those_who_have_to_agree_are_not_shown_what_the_call_touched_before_it_was_edited(begun):
    [call] = begun.call(touching("src/a", terms=Approvers("role:finance", minimum=2).terms))
    begun.resolve(Approve(ELSEWHERE), call, principal=ANA)
    [*_, asked] = [event for event in begun.log if event.kind == "call_suspended"]
    assert asked.targets == ()
    begun.resolve(Approve(), call, principal=BO, suspension_id=asked.suspension_id)
    assert begun.run(call).arguments_at == begun.log.index(asked)


def test_a_tool_that_says_nothing_of_targets_is_the_target_itself_after_an_edit_too(begun):
    [call] = begun.call("refund")
    begun.resolve(Approve(ELSEWHERE), call)
    assert begun.state.turn.call(call).targets is None


@pytest.mark.parametrize("decision", [Approve(), Answer({"amount": 1})], ids=["as it is", "an answer"])
def test_what_is_not_edited_keeps_its_targets(conversations, decision):
    spec = conversations.desk_with(refund={"decisions": ("approve", "edit", "deny", "answer")})
    begun = conversations(spec=spec).begun()
    [call] = begun.call(touching("src/a"))
    begun.resolve(decision, call)
    assert [target.value for target in begun.state.turn.call(call).targets] == ["src/a"]
