"""Whose word a call has where it is asked about again right before its run: of whom, on what, and what its body is given."""

import pytest

from holdfast.actors.worker.gate import stopped
from holdfast.agent import Rule, Rules
from holdfast.conversation import Approve, Execution, Principal, Redispatch, SuspensionKind
from holdfast.conversation.records.calls import MOST_REVIEWS, CallStatus
from holdfast.conversation.records.commands import ProposedCall, Revoke, RunRuled, RunSuspended
from holdfast.conversation.terms.approvers import Approvers, ApproverTerms, joined, with_fulfilled
from holdfast.conversation.terms.decisions import Review
from holdfast.conversation.terms.grants import CallTarget, Level, Scope
from holdfast.conversation.terms.principal import Proof
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.conversation.terms.spec import Resume


def person(name, *roles, proof=Proof.KEY):
    return Principal(name, roles=roles, proof=proof)


ANA, LEE, LOU = person("ana", "finance"), person("lee", "legal"), person("lou", "legal")
KIM, SUE = person("kim", "finance", "legal"), person("sue", "support")
FINANCE, LEGAL, SUPPORT = (Approvers(f"role:{name}").terms for name in ("finance", "legal", "support"))
ANY_REFUND = Scope("tool", "refund", level="execute")


def proposed(terms=None, *, tool="refund", number=1, **more):
    return ProposedCall(tool_call_id=f"call_{number}", name=tool, arguments='{"amount":5}', approvers=terms, **more)


def asked_again(begun, call, terms=None):
    """The worker finds, right before the run, that rules in force ask these people."""
    begun.do(
        RunRuled(effect_id=begun.run(call).effect_id, ruled=RuleVerdict(effect=RuleEffect.ASK, rule="new", approvers=terms))
    )


def decided(begun, call, decision, *people):
    for principal in people:
        begun.resolve(decision, call, principal=principal, suspension_id=begun.suspension(call).suspension_id)


def reviewed(begun, call, review, by, approvers=None):
    """The body has its work reviewed, and is to be given the verdict."""
    effect_id = begun.run(call).effect_id
    begun.do(RunSuspended(effect_id=effect_id, title="look", resume=Resume.PASS_TO_TOOL, approvers=approvers))
    decided(begun, call, review, by)


def asked_by(begun, call, approvers):
    """Whom a rule with these approvers has the worker ask before the call's run; empty where it may begin."""
    name = begun.run(call).tool
    found = stopped(Rules(ask=[Rule(name, approvers=approvers)]), None, begun.run(call), {"amount": 5}, required=False)
    return () if found is None else found.approvers.who


@pytest.mark.parametrize(
    ("first", "by", "then", "rule"),
    [
        (Approvers("role:finance"), ANA, Approvers("role:legal", minimum=2), Approvers("role:finance", minimum=2)),
        (
            Approvers("role:finance", stated=True),
            person("al", "finance", proof=Proof.STATED),
            Approvers("role:legal", minimum=2),
            Approvers("role:finance"),
        ),
        (
            Approvers("role:finance"),
            ANA,
            Approvers("role:legal", minimum=2, not_requester=True),
            Approvers("role:finance", not_requester=True),
        ),
    ],
    ids=["minimum", "stated", "not_requester"],
)
def test_two_lists_that_have_approved_a_call_are_no_stricter_than_each_of_them(conversation, first, by, then, rule):
    conversation.start("hello", principal=ANA)
    conversation.begin()
    [call] = conversation.call(proposed(first.terms))
    decided(conversation, call, Approve(), by)
    asked_again(conversation, call, then.terms)
    decided(conversation, call, Approve(), LEE, LOU)
    assert asked_by(conversation, call, first) == ()
    assert asked_by(conversation, call, then) == ()
    assert asked_by(conversation, call, rule) == (("role:finance",),)
    asked_again(conversation, call, rule.terms)
    assert conversation.state.turn.call(call).deciders == rule.terms


def test_a_review_is_no_approval_by_those_who_decide_the_call(begun):
    [call] = begun.call(proposed(FINANCE, tool="lookup"))
    reviewed(begun, call, Review("allow"), SUE, SUPPORT)
    assert asked_by(begun, call, ["role:finance"]) == (("role:finance",),)
    asked_again(begun, call, LEGAL)
    assert begun.state.turn.call(call).deciders == joined(FINANCE, LEGAL)
    decided(begun, call, Approve(), KIM)
    assert asked_by(begun, call, ["role:finance"]) == asked_by(begun, call, ["role:legal"]) == ()


def test_a_call_let_go_by_a_grant_after_it_was_asked_about_again_ends_with_the_grant(begun):
    asked, other = begun.call(proposed(FINANCE), proposed(LEGAL, number=2))
    decided(begun, asked, Approve(), ANA)
    asked_again(begun, asked, LEGAL)
    begun.resolve(Approve(scope=ANY_REFUND), other, principal=LEE)
    run = begun.run(asked)
    (grant,) = begun.state.grants
    assert (run.grants, run.decided_at, run.approvers) == ((grant.grant_id,), 0, LEGAL)
    assert asked_by(begun, asked, ["role:legal"]) == asked_by(begun, asked, ["role:finance"]) == ()
    begun.do(Revoke(grant_id=grant.grant_id, request_id="x-1"))
    asked_again(begun, asked)  # its claim is refused
    assert begun.state.turn.call(asked).deciders == LEGAL
    decided(begun, asked, Approve(), LOU)
    assert (begun.run(asked).grants, begun.state.turn.call(asked).status) == ((), CallStatus.RUNNING)


def test_those_who_asked_for_an_edit_agree_to_it_where_a_call_is_never_approved_as_it_is(conversations):
    spec = conversations.desk_with(refund={"decisions": ("edit", "deny")})
    begun = conversations(spec=spec).begun()
    [call] = begun.call(proposed(Approvers("role:finance", minimum=2).terms))
    decided(begun, call, Approve({"amount": 6}), ANA)
    *_, shown = (event for event in begun.log if event.kind == "call_suspended")
    assert shown.decisions is None, "it takes what every approval does"
    decided(begun, call, Approve(), KIM)
    assert begun.state.turn.call(call).status is CallStatus.RUNNING


def test_a_run_that_somebody_has_sent_to_run_again_is_not_asked_about_once_more(begun):
    [first] = begun.call(proposed(tool="ship"))
    begun.resolve(Approve(scope=Scope("tool", "ship", level="execute")), first, principal=ANA)
    begun.finish(first)
    [second] = begun.call(proposed(tool="ship", number=2, ruled=RuleVerdict(effect=RuleEffect.ASK, rule="ships")))
    assert begun.run(second).grants
    begun.lose(second)
    decided(begun, second, Redispatch(), ANA)
    run = begun.run(second)
    assert begun.log[run.decided_at - 1].principal == ANA
    assert stopped(Rules(ask=["ship"]), None, run, {"amount": 5}, required=False) is None


@pytest.mark.parametrize("review", [Review("block", "never"), Review("allow")], ids=lambda one: one.verdict)
def test_what_the_body_is_given_is_the_review_also_after_an_approval(begun, review):
    [call] = begun.call(proposed(tool="lookup"))
    reviewed(begun, call, review, SUE)
    passed_at = begun.run(call).passed_at
    asked_again(begun, call, LEGAL)
    decided(begun, call, Approve(), LEE)
    run = begun.run(call)
    assert (run.passed_at, run.decided_at > passed_at) == (passed_at, True)
    assert begun.log[passed_at - 1].decision == "review"


def test_a_review_of_other_arguments_is_not_given_to_the_body(begun):
    [call] = begun.call(proposed(tool="lookup"))
    reviewed(begun, call, Review("allow"), SUE)
    asked_again(begun, call, LEGAL)
    decided(begun, call, Approve({"amount": 99}), LEE)
    assert begun.run(call).passed_at == 0


def granted(begun, terms=FINANCE):
    """A call that runs by a grant of finance, and the grant."""
    [first] = begun.call(proposed(terms))
    begun.resolve(Approve(scope=ANY_REFUND), first, principal=ANA)
    begun.finish(first)
    [call] = begun.call(proposed(terms, number=2))
    (grant,) = begun.state.grants
    assert begun.run(call).grants == (grant.grant_id,)
    return call, grant.grant_id


def test_a_review_lets_nothing_go_on_that_ran_by_a_grant_which_is_gone(begun):
    call, grant_id = granted(begun)
    reviewed(begun, call, Review("allow"), SUE, SUPPORT)
    assert begun.run(call).grants == (grant_id,), "it stands"
    effect_id = begun.run(call).effect_id
    begun.do(RunSuspended(effect_id=effect_id, title="look again", resume=Resume.PASS_TO_TOOL, approvers=SUPPORT))
    begun.do(Revoke(grant_id=grant_id, request_id="x-1"))
    decided(begun, call, Review("allow"), SUE)
    asked = begun.state.turn.call(call)
    assert (asked.suspension.kind, asked.deciders) == (SuspensionKind.APPROVAL, FINANCE)
    decided(begun, call, Approve(), KIM)
    run = begun.run(call)
    assert (run.grants, begun.log[run.passed_at - 1].decision) == ((), "review")


def test_nor_does_a_review_where_others_have_approved_it_beside_the_grant(begun):
    call, grant_id = granted(begun)
    asked_again(begun, call, LEGAL)
    decided(begun, call, Approve(), LEE)
    effect_id = begun.run(call).effect_id
    begun.do(RunSuspended(effect_id=effect_id, title="look", resume=Resume.PASS_TO_TOOL, approvers=SUPPORT))
    begun.do(Revoke(grant_id=grant_id, request_id="x-1"))
    decided(begun, call, Review("allow"), SUE)
    assert begun.state.turn.call(call).deciders == FINANCE
    decided(begun, call, Approve(), ANA)
    assert begun.state.turn.call(call).status is CallStatus.RUNNING


def test_who_has_given_a_grant_and_who_is_asked_beside_need_not_be_one_person(begun):
    call, grant_id = granted(begun)
    asked_again(begun, call, LEGAL)
    assert begun.state.turn.call(call).deciders == LEGAL
    decided(begun, call, Approve(), LEE)
    run = begun.run(call)
    assert (run.grants, run.decided_at) == ((grant_id,), 0)
    assert asked_by(begun, call, ["role:legal"]) == asked_by(begun, call, ["role:finance"]) == ()
    begun.do(Revoke(grant_id=grant_id, request_id="x-1"))
    asked_again(begun, call)  # its claim is refused
    assert begun.state.turn.call(call).deciders == FINANCE
    decided(begun, call, Approve(), ANA)
    assert begun.run(call).grants == ()
    assert asked_by(begun, call, ["role:legal"]) == asked_by(begun, call, ["role:finance"]) == ()


def test_a_call_that_runs_by_a_grant_may_ask_as_often_as_any_other(begun):
    call, _ = granted(begun)
    for _ in range(MOST_REVIEWS):
        reviewed(begun, call, Review("review", "once more"), SUE, SUPPORT)
        assert asked_by(begun, call, ["role:finance"]) == ()
    assert begun.state.turn.call(call).status is CallStatus.RUNNING


def test_an_approval_alone_gives_the_body_no_decision(begun):
    [call] = begun.call(proposed(FINANCE))
    decided(begun, call, Approve({"amount": 9}), ANA)
    asked_again(begun, call, LEGAL)
    decided(begun, call, Approve(), LEE)
    assert begun.run(call).passed_at == 0


def test_a_held_call_asks_what_its_tool_asks_after_a_scope_that_lets_its_siblings_go(conversations):
    spec = conversations.desk_with().model_copy(update={"execution": Execution.BATCH})
    begun = conversations(spec=spec).begun()
    first, _, last = begun.call(
        *(proposed(number=n, targets=(CallTarget(kind="path", value=f"s/{n}", level=Level.WRITE),)) for n in (1, 2)),
        proposed(tool="locate", number=3, prompt="Where are you?"),
    )
    begun.resolve(Approve(scope=Scope("path", "s/**", level="write")), first, principal=ANA)
    begun.rule(last, RuleEffect.ALLOW)
    *_, asked = (event for event in begun.log if event.kind == "call_suspended")
    assert (asked.suspension_kind, asked.prompt) == (SuspensionKind.CLIENT_EXEC, "Where are you?")


def test_what_was_fulfilled_is_kept_without_what_follows_from_it_and_within_its_bound():
    two = Approvers("role:finance", minimum=2).terms
    assert with_fulfilled((FINANCE,), two) == (two,)
    assert with_fulfilled((two,), FINANCE) == (two,)
    assert with_fulfilled((two,), LEGAL) == (two, LEGAL)
    long = [ApproverTerms(who=((f"role:{name * 3000}",),)) for name in "abc"]
    assert with_fulfilled(with_fulfilled((long[0],), long[1]), long[2]) == (long[2],)
