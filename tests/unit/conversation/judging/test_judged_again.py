"""A client's call that has waited, or that a grant lets go on, is judged by the rules in force before a client is given it."""

import pytest
from claiming import claim, give_back

from holdfast.conversation import (
    Approve,
    Approvers,
    Cancel,
    Deny,
    Execution,
    Executor,
    OnLost,
    Principal,
    Proof,
    Redispatch,
    SuspensionKind,
)
from holdfast.conversation.judging.granting import ENDED
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.commands import Revoke, RunRuled
from holdfast.conversation.terms.grants import Scope
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict

LETS_GO = RuleVerdict(effect=RuleEffect.ALLOW)
DENIED = RuleVerdict(effect=RuleEffect.DENY, rule="no-sharing", reason="not today")
BEN = Principal("ben", proof=Proof.OIDC)
SHARES = Scope("tool", "share", level="execute")


def ruled(begun, call, verdict=LETS_GO, *, at=None, **more):
    """The step in which the worker says what the rules in force are about the call's run."""
    return begun.do(RunRuled(effect_id=begun.run(call).effect_id, ruled=verdict, **more), at=at)


def executions(begun):
    """The calls that were handed over to clients, in order."""
    suspended = [event for event in begun.log if event.kind == "call_suspended"]
    return [event.tool_call_id for event in suspended if event.suspension_kind is SuspensionKind.CLIENT_EXEC]


def approved(begun, *, decision=None):
    """A gated call of a client that was approved, and not judged again yet."""
    [call] = begun.call("share")
    begun.resolve(decision or Approve(), call)
    return call


def test_an_approved_call_is_judged_again_before_a_client_is_given_it(begun):
    call = approved(begun)
    run = begun.run(call)
    assert (run.judges_only, run.executor, run.attempt, run.resumed) == (True, Executor.CLIENT, 1, 0)
    assert (run.fulfilled, run.decided_at) == ((), begun.state.turn.call(call).decided_at)
    assert executions(begun) == []

    ruled(begun, call)

    assert executions(begun) == [call]
    assert begun.suspension(call).kind is SuspensionKind.CLIENT_EXEC
    assert begun.effect_ids == []


def test_a_deny_that_was_published_while_it_waited_reaches_it(begun):
    call = approved(begun)
    ruled(begun, call, DENIED)
    assert begun.result(call) == {"ok": False, "error": "denied by the rule 'no-sharing': not today; it did not run"}
    assert executions(begun) == []


def test_a_rule_that_asks_others_asks_them_and_is_asked_again_itself(begun):
    call = approved(begun)
    ruled(begun, call, RuleVerdict(effect=RuleEffect.ASK, rule="four eyes", approvers=Approvers("id:ben").terms))
    asked = begun.suspension(call)
    assert (asked.kind, begun.state.turn.call(call).deciders) == (SuspensionKind.APPROVAL, Approvers("id:ben").terms)

    begun.resolve(Approve(), call, suspension_id=asked.suspension_id, principal=BEN)
    run = begun.run(call)
    assert (run.attempt, run.resumed) == (2, 1), "no run of it counts as an attempt"
    assert executions(begun) == []

    ruled(begun, call)
    assert executions(begun) == [call]


def test_edited_arguments_are_those_that_are_judged_and_handed_over(begun):
    call = approved(begun, decision=Approve({"amount": 7}))
    edited_at = begun.state.turn.call(call).arguments_at
    assert begun.run(call).arguments_at == edited_at
    ruled(begun, call)
    assert begun.log[-1].arguments_at == edited_at


def test_a_verdict_that_comes_too_late_is_asked_for_again(begun):
    call = approved(begun)
    ruled(begun, call, until_ms=begun.now + 1000, at=begun.now + 1000)
    assert executions(begun) == []
    assert (begun.run(call).attempt, begun.run(call).resumed) == (2, 1)

    ruled(begun, call, until_ms=begun.now + 1001)
    assert executions(begun) == [call]


def test_a_deny_is_never_too_late(begun):
    call = approved(begun)
    ruled(begun, call, DENIED, until_ms=1)
    assert begun.result(call)["ok"] is False


def test_a_call_that_nobody_was_asked_about_is_handed_over_at_once(begun):
    [call] = begun.call("locate")
    assert executions(begun) == [call]
    assert "run_scheduled" not in begun.kinds()


def test_a_call_that_a_grant_lets_go_on_is_judged_though_nobody_was_asked(begun):
    call = approved(begun, decision=Approve(scope=SHARES))
    ruled(begun, call)
    begun.resolve(Cancel(), call, suspension_id=begun.suspension(call).suspension_id)

    [second] = begun.call("share")

    [grant] = begun.state.grants
    assert begun.run(second).grants == (grant.grant_id,)
    ruled(begun, second)
    assert begun.log[-1].grants == (grant.grant_id,)
    assert executions(begun) == [call, second]


def test_a_call_that_another_ones_grant_has_let_go_is_judged_too(begun):
    first, second = begun.call("share", "share")
    begun.resolve(Approve(scope=SHARES), first)
    ruled(begun, second, DENIED)
    assert begun.result(second)["error"].startswith("denied by the rule")
    assert executions(begun) == []


@pytest.mark.parametrize("until_ms", [None, 0], ids=["in time", "too late"])
def test_a_call_whose_grant_ends_before_it_is_handed_over_asks_a_person(begun, until_ms):
    first, second = begun.call("share", "share")
    begun.resolve(Approve(scope=SHARES), first)
    [grant] = begun.state.grants
    begun.do(Revoke(grant_id=grant.grant_id, request_id="r-1"))

    ruled(begun, second, until_ms=until_ms)

    assert begun.suspension(second).kind is SuspensionKind.APPROVAL
    assert begun.log[-1].rule_reason == ENDED.reason
    assert executions(begun) == []


def test_a_grants_giver_that_may_no_longer_decide_ends_it_before_the_call_is_handed_over(begun):
    first, second = begun.call("share", "share")
    begun.resolve(Approve(scope=SHARES), first, principal=BEN)
    [grant] = begun.state.grants
    lapsed = RuleVerdict(effect=RuleEffect.ASK, reason="may not", lapsed=(grant.grant_id,))

    ruled(begun, second, lapsed)

    assert begun.state.grants == ()
    assert begun.suspension(second).kind is SuspensionKind.APPROVAL


@pytest.mark.parametrize("execution", [Execution.SEQUENTIAL, Execution.BATCH])
def test_a_call_that_was_held_is_judged_when_it_is_let_go_and_keeps_its_prompt(conversations, execution):
    begun = conversations(spec=conversations.desk_with().model_copy(update={"execution": execution})).begun()
    first, call = begun.call("refund", "locate", prompt="Where are you?")
    assert begun.state.turn.call(call).status is CallStatus.HELD
    held_at = begun.state.turn.call(call).held_at
    begun.resolve(Deny(), first)

    judge = RunRuled(effect_id=begun.run(call).effect_id, ruled=LETS_GO)
    assert judge.reads(begun.state, begun.spec) == (held_at,)
    begun.do(judge)

    assert (begun.log[-1].suspension_kind, begun.log[-1].prompt) == (SuspensionKind.CLIENT_EXEC, "Where are you?")


def test_a_batch_waits_until_the_call_is_judged(conversations):
    begun = conversations(spec=conversations.desk_with().model_copy(update={"execution": Execution.SEQUENTIAL})).begun()
    first, later = begun.call("share", "lookup")
    begun.resolve(Approve(), first)
    assert begun.state.turn.call(later).status is CallStatus.HELD
    ruled(begun, first, DENIED)
    assert begun.state.turn.call(later).status is CallStatus.RUNNING


@pytest.mark.parametrize("on_lost", OnLost)
def test_a_lost_judgement_is_asked_for_again_whatever_the_tool_says_of_lost_runs(conversations, on_lost):
    begun = conversations(spec=conversations.desk_with(share={"on_lost": on_lost})).begun()
    call = approved(begun)
    begun.lose(call)
    assert (begun.run(call).attempt, begun.run(call).resumed) == (2, 1)
    assert "call_resolved" not in begun.kinds()
    ruled(begun, call)
    assert executions(begun) == [call]


def test_a_call_cancelled_while_it_is_judged_did_not_run(begun):
    call = approved(begun)
    effect_id = begun.run(call).effect_id
    begun.cancel()
    assert begun.result(call) == {"ok": False, "error": "cancelled before it was answered; it did not run"}
    assert begun.do(RunRuled(effect_id=effect_id, ruled=LETS_GO)).ignored, "the verdict is late"


def test_a_client_that_was_lost_is_followed_by_another_one_only_if_the_rules_still_let_it(conversations):
    begun = conversations(spec=conversations.desk_with(locate={"on_lost": OnLost.ASK})).begun()
    [call] = begun.call("locate")
    begun.do(claim("phone"))
    begun.do(give_back("phone"))
    lost = begun.suspension(call)
    assert lost.kind is SuspensionKind.LOST
    begun.resolve(Redispatch(), call, suspension_id=lost.suspension_id)

    assert (begun.run(call).judges_only, begun.state.turn.call(call).claims) == (True, 1)
    ruled(begun, call, DENIED)
    assert begun.result(call)["error"].startswith("denied by the rule")
    assert executions(begun) == [call]
