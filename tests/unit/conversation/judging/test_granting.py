"""Grants in a conversation: given with an approval, used by later calls and by those that wait, and revoked."""

import pytest

from holdfast.actors.worker.gate import UNREADABLE
from holdfast.conversation import (
    Answer,
    Approve,
    Deny,
    Execution,
    OnLost,
    Redispatch,
    Resume,
    Review,
    SettledBy,
    SuspensionKind,
)
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.commands import ProposedCall, Revoke, RunRuled
from holdfast.conversation.terms.approvers import ApproverTerms
from holdfast.conversation.terms.grants import MOST_GRANTS, CallTarget, Level, Scope
from holdfast.conversation.terms.principal import Principal
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.errors import InvalidDecision, InvalidInput, NotPermitted

SOURCES = Scope("path", "src/**", level="write")


def touching(*paths, tool="refund", level=Level.WRITE, number=1):
    targets = tuple(CallTarget(kind="path", value=path, level=level) for path in paths)
    return ProposedCall(tool_call_id=f"call_{number}", name=tool, arguments='{"amount":5}', targets=targets)


def revoke(grant_id="g6", request_id="r-1", **more):
    return Revoke(grant_id=grant_id, request_id=request_id, **more)


@pytest.fixture
def given(begun):
    """A conversation in whose first turn a grant was given with an approval, and the id of the grant."""
    [call] = begun.call(touching("src/a"))
    begun.resolve(Approve(scope=SOURCES), call)
    begun.finish(call)
    [grant] = begun.state.grants
    return begun, grant


def test_an_approval_alone_covers_its_own_call_and_no_other(begun):
    [call] = begun.call(touching("src/a"))
    begun.resolve(Approve(), call)
    begun.finish(call)
    [later] = begun.call(touching("src/a", number=2))
    assert begun.suspension(later).kind is SuspensionKind.APPROVAL
    assert begun.state.grants == ()


def test_a_call_that_a_grant_covers_runs_without_asking_and_says_by_which(given):
    begun, grant = given
    [later] = begun.call(touching("src/b/c", number=2))
    assert (begun.log[-1].kind, begun.log[-1].grants) == ("run_scheduled", (grant.grant_id,))
    assert begun.run(later).grants == (grant.grant_id,)


@pytest.mark.parametrize(
    "call",
    [
        touching("lib/a", number=2),
        touching("src/a", "lib/a", number=2),
        touching("src/a", level=Level.EXECUTE, number=2),
        touching("src/../etc/passwd", number=2),
        touching(*(f"src/{n}" for n in range(9)), number=2),
        touching("src/" + "a" * 300, number=2),
        touching(number=2),
        ProposedCall(tool_call_id="call_2", name="refund", arguments='{"amount":5}'),
    ],
    ids=["elsewhere", "in part", "further", "a way up", "too many", "too long", "untold", "undeclared"],
)
def test_a_call_that_no_grant_covers_wholly_asks(given, call):
    begun, _ = given
    [later] = begun.call(call)
    assert begun.suspension(later).kind is SuspensionKind.APPROVAL


def test_a_tool_without_targets_is_covered_by_a_grant_for_the_tool_alone(begun):
    [call] = begun.call("refund")
    begun.resolve(Approve(scope=Scope("tool", "refund", level="execute")), call)
    begun.finish(call)
    refund, ship = begun.call("refund", "ship")
    assert begun.state.turn.call(refund).status is CallStatus.RUNNING
    assert begun.suspension(ship).kind is SuspensionKind.APPROVAL


def test_a_clients_execution_says_by_which_grants_it_is_asked_for(begun):
    first, second = begun.call("share", "share")
    begun.resolve(Approve(scope=Scope("tool", "share", level="execute")), first)
    for call in (first, second):
        begun.rule(call, RuleEffect.ALLOW)
    later = begun.suspension(second)
    assert later.kind is SuspensionKind.CLIENT_EXEC
    [grant] = begun.state.grants
    assert [event.grants for event in begun.log if event.kind == "call_suspended"][2:] == [(), (grant.grant_id,)]


def test_what_waits_and_is_covered_is_let_go_by_the_same_append(begun):
    first, second, third = begun.call(touching("src/a"), touching("src/b", number=2), touching("lib/c", number=3))
    before = begun.state.seq
    begun.resolve(Approve(scope=SOURCES), first)
    added = begun.log[before:]
    assert [event.kind for event in added] == [
        "suspension_settled",
        "run_scheduled",
        "grant_given",
        "suspension_settled",
        "run_scheduled",
    ]
    [grant] = begun.state.grants
    assert (added[3].by, added[3].grants, added[3].tool_call_id) == (SettledBy.GRANT, (grant.grant_id,), second)
    assert grant.seq == before + 1
    assert begun.suspension(third).kind is SuspensionKind.APPROVAL


def test_a_grant_stands_for_nobody_where_the_rules_in_force_cannot_be_read_and_might_deny(given):
    begun, _ = given
    late, early = begun.call(
        touching("src/a", number=2), touching("src/b", tool="lookup", number=3).model_copy(update={"ruled": UNREADABLE})
    )
    assert begun.suspension(early).kind is SuspensionKind.APPROVAL
    begun.do(RunRuled(effect_id=begun.run(late).effect_id, ruled=UNREADABLE))
    assert begun.suspension(late).kind is SuspensionKind.APPROVAL

    with pytest.raises(NotPermitted, match="nobody said who"):
        begun.resolve(Approve(), late)
    begun.resolve(Approve(), late, principal=Principal(id="ana"))
    assert begun.state.turn.call(late).status is CallStatus.RUNNING


def test_a_grant_of_those_who_may_decide_stands_for_nobody_either_where_the_rules_cannot_be_read(begun):
    finance = ApproverTerms(who=(("role:finance",),), stated=True)
    ana = Principal(id="ana", roles=("finance",))
    [call] = begun.call(touching("src/a").model_copy(update={"approvers": finance}))
    begun.resolve(Approve(scope=SOURCES), call, principal=ana)
    begun.finish(call)
    covered, unreadable = begun.call(
        *(
            touching("src/b", number=number).model_copy(update={"approvers": finance, "ruled": ruled})
            for number, ruled in ((2, None), (3, UNREADABLE))
        )
    )
    assert begun.state.turn.call(covered).status is CallStatus.RUNNING
    assert begun.suspension(unreadable).kind is SuspensionKind.APPROVAL
    begun.do(RunRuled(effect_id=begun.run(covered).effect_id, ruled=UNREADABLE))
    assert begun.suspension(covered).kind is SuspensionKind.APPROVAL


def test_who_answers_a_question_need_not_say_who_they_are_where_the_rules_cannot_be_read(begun):
    [call] = begun.call(ProposedCall(tool_call_id="call_1", name="ask", arguments='{"amount":5}', ruled=UNREADABLE))
    assert begun.suspension(call).kind is SuspensionKind.ELICITATION
    begun.resolve(Answer("yes"), call)
    assert begun.result(call)["ok"]


def test_a_call_that_a_rule_asks_about_is_covered_too(given):
    begun, grant = given
    proposed = touching("src/b", tool="lookup", number=2)
    [call] = begun.call(proposed.model_copy(update={"ruled": RuleVerdict(effect=RuleEffect.ASK, rule="look first")}))
    assert begun.run(call).grants == (grant.grant_id,)


def test_a_persons_answer_is_never_granted(begun):
    [call] = begun.call("refund")
    begun.resolve(Approve(scope=Scope("tool", "*", level="admin", everything=True)), call)
    begun.finish(call)
    [asked] = begun.call("ask")
    assert begun.suspension(asked).kind is SuspensionKind.ELICITATION


def test_a_grant_ends_when_its_time_is_over(begun):
    [call] = begun.call(touching("src/a"))
    begun.resolve(Approve(scope=Scope("path", "src/**", level="write", ends_s=60)), call)
    begun.finish(call)
    [soon] = begun.call(touching("src/b", number=2))
    assert begun.run(soon).grants_until == begun.state.grants[0].ends_at
    begun.finish(soon)
    begun.now += 60_000
    [later] = begun.call(touching("src/b", number=3))
    assert begun.suspension(later).kind is SuspensionKind.APPROVAL


def test_after_a_revocation_nothing_is_covered_and_what_was_not_claimed_is_asked_about(given):
    begun, grant = given
    [call] = begun.call(touching("src/b", number=2))
    run = begun.run(call)
    receipt = begun.do(revoke(grant.grant_id, reason="enough")).reply
    assert (begun.log[-1].kind, begun.log[-1].reason, receipt.seq) == ("grant_revoked", "enough", begun.state.seq)
    assert begun.state.grants == ()
    assert begun.run(call).grants_epoch == run.grants_epoch + 1
    begun.do(RunRuled(effect_id=run.effect_id, ruled=RuleVerdict(effect=RuleEffect.ASK)))
    assert begun.suspension(call).kind is SuspensionKind.APPROVAL
    begun.resolve(Approve(), call)
    assert (begun.run(call).attempt, begun.run(call).resumed, begun.run(call).grants) == (2, 1, ())


def test_a_run_whose_grant_was_revoked_is_claimed_in_no_epoch(given):
    """An actor that comes up after the revocation asks for the run with the epoch of then: that must not let it begin."""
    begun, grant = given
    [call] = begun.call(touching("src/b", number=2))
    assert begun.run(call).grants_until is None
    begun.do(revoke(grant.grant_id))
    assert begun.run(call).grants_until == 0


def test_a_run_whose_grant_has_ended_stays_so_when_another_takes_its_place(begun):
    first, second = begun.call(touching("src/a"), touching("lib/a", number=2))
    begun.resolve(Approve(scope=Scope("path", "src/**", level="write", ends_s=60)), first)
    begun.finish(first)
    begun.resolve(Approve(), second)
    begun.finish(second)
    run, other = begun.call(touching("src/b", number=3), touching("lib/b", number=4))
    assert begun.run(run).grants_until == begun.state.grants[0].ends_at
    begun.now += 60_000
    begun.resolve(Approve(scope=Scope("path", "lib/**", level="write")), other)
    assert [one.pattern for one in begun.state.grants] == ["lib/**"]
    assert begun.run(run).grants_until == 0


def test_a_lost_run_goes_on_by_what_covers_it_now(conversations):
    spec = conversations.desk_with(refund={"on_lost": OnLost.REDISPATCH})
    begun = conversations(spec=spec).begun()
    first, second = begun.call(touching("src/a"), touching("lib/a", number=2))
    begun.resolve(Approve(scope=SOURCES), first)
    begun.finish(first)
    [grant] = begun.state.grants
    begun.resolve(Approve(), second)
    begun.finish(second)
    run, asked = begun.call(touching("src/b", number=3), touching("src2", number=4))
    begun.resolve(Approve(scope=Scope("path", "src*/**", level="write")), asked)
    other = begun.state.grants[1]
    begun.do(revoke(grant.grant_id))
    begun.lose(run)
    assert (begun.log[-1].attempt, begun.log[-1].grants) == (2, (other.grant_id,))
    begun.do(revoke(other.grant_id, request_id="r-2"))
    begun.lose(run)
    assert begun.run(run).grants_until == 0
    begun.do(RunRuled(effect_id=begun.run(run).effect_id, ruled=RuleVerdict(effect=RuleEffect.ASK)))
    begun.resolve(Approve(), run)
    effect = begun.run(run)
    assert (effect.attempt - effect.resumed, effect.grants) == (3, ()), "it was lost twice"


def test_a_body_that_goes_on_after_a_review_needs_a_grant_that_stands_or_an_approval(given):
    """Whoever reviews something may be none of those who approve the call, and has approved nothing."""
    begun, grant = given
    [later] = begun.call(touching("src/b", number=2))
    assert begun.run(later).grants == (grant.grant_id,)
    begun.suspend(later, resume=Resume.PASS_TO_TOOL)
    begun.do(revoke(grant.grant_id))

    begun.resolve(Review("allow"), later)

    assert begun.suspension(later).kind is SuspensionKind.APPROVAL
    begun.resolve(Approve(), later, suspension_id=begun.suspension(later).suspension_id)
    effect = begun.run(later)
    assert (effect.grants, effect.decided_at > effect.passed_at > 0) == ((), True)


def test_a_lost_run_that_a_person_sends_again_rests_on_that_decision_and_on_no_grant(conversations):
    begun = conversations(spec=conversations.desk_with(refund={"on_lost": OnLost.ASK})).begun()
    [first] = begun.call(touching("src/a"))
    begun.resolve(Approve(scope=SOURCES), first)
    begun.finish(first)
    [grant] = begun.state.grants
    [run] = begun.call(touching("src/b", number=2))
    begun.lose(run)
    begun.do(revoke(grant.grant_id))

    begun.resolve(Redispatch(), run)

    effect = begun.run(run)
    assert (effect.grants, effect.grants_until, effect.granted_at, effect.attempt - effect.resumed) == ((), None, 0, 2)


def test_of_decisions_made_at_once_none_is_taken_by_the_grant_of_another(begun):
    first, second, third = begun.call(touching("src/a"), touching("src/b", number=2), touching("src/c", number=3))
    before = begun.state.seq
    begun.resolve_many({first: Approve(scope=SOURCES), second: Deny("not this one")})
    assert [(event.kind, event.tool_call_id) for event in begun.log[before:] if event.kind != "grant_given"] == [
        ("suspension_settled", first),
        ("run_scheduled", first),
        ("suspension_settled", second),
        ("call_resolved", second),
        ("suspension_settled", third),
        ("run_scheduled", third),
    ]
    assert begun.result(second)["error"] == "the user denied this call: not this one"


def test_a_run_that_another_grant_still_covers_goes_on_after_a_revocation(begun):
    first, second = begun.call(touching("src/a"), touching("lib/a", number=2))
    begun.resolve(Approve(scope=SOURCES), first)
    begun.resolve(Approve(scope=Scope("path", "lib/**", level="write")), second)
    begun.finish(first)
    begun.finish(second)
    sources, _ = begun.state.grants
    [call] = begun.call(touching("lib/b", number=3))
    begun.do(revoke(sources.grant_id))
    begun.do(RunRuled(effect_id=begun.run(call).effect_id, ruled=RuleVerdict(effect=RuleEffect.ASK)))
    assert begun.state.turn.call(call).status is CallStatus.RUNNING
    assert (begun.run(call).attempt, begun.run(call).resumed, begun.run(call).grants_epoch) == (2, 1, 1)


def test_a_repeated_revocation_has_the_first_receipt_and_another_with_its_id_is_refused(given):
    begun, grant = given
    first = begun.do(revoke(grant.grant_id)).reply
    again = begun.do(revoke(grant.grant_id)).reply
    assert (again.seq, again.duplicate) == (first.seq, True)
    with pytest.raises(InvalidInput, match="request_id"):
        begun.do(revoke(grant.grant_id, reason="another"))
    with pytest.raises(InvalidInput, match="grant_id"):
        begun.do(revoke(grant.grant_id, request_id="r-2"))


@pytest.mark.parametrize("given_id", ["", "g", "g99", "x" * 300])
def test_a_grant_that_is_not_there_cannot_be_revoked(begun, given_id):
    with pytest.raises(InvalidInput, match="grant_id"):
        begun.do(revoke(given_id))


def test_a_scope_with_edited_arguments_is_refused(begun):
    [call] = begun.call(touching("src/a"))
    with pytest.raises(InvalidDecision, match=r"decision\.scope"):
        begun.resolve(Approve({"amount": 3}, scope=SOURCES), call)
    with pytest.raises(InvalidDecision, match=r"decision\.scope"):
        begun.resolve(Approve(scope="src/**"), call)
    assert begun.suspension(call).kind is SuspensionKind.APPROVAL


def test_the_same_decision_with_another_scope_is_another(begun):
    [call] = begun.call(touching("src/a"))
    begun.resolve(Approve(scope=SOURCES), call, decision_id="d-1")
    assert begun.resolve(Approve(scope=SOURCES), call, decision_id="d-1").reply.duplicate
    with pytest.raises(InvalidDecision, match="decision_id"):
        begun.resolve(Approve(), call, decision_id="d-1")


def test_a_conversation_has_a_bounded_number_of_grants_and_ended_ones_make_room(begun):
    *calls, last = begun.call(*(touching(f"lib/{number}", number=number) for number in range(MOST_GRANTS + 1)))
    for number, call in enumerate(calls):
        scope = Scope("path", f"lib/{number}/**", level="read", ends_s=200 if number == 0 else None)
        begun.resolve(Approve(scope=scope), call)
    with pytest.raises(InvalidDecision, match="grants"):
        begun.resolve(Approve(scope=SOURCES), last)
    begun.now = begun.state.grants[0].ends_at
    begun.resolve(Approve(scope=SOURCES), last)
    assert len(begun.state.grants) == MOST_GRANTS


def test_in_a_batch_what_a_grant_covers_is_no_question(conversations):
    desk = conversations.desk_with().model_copy(update={"execution": Execution.BATCH})
    begun = conversations(spec=desk).begun()
    first, second, third = begun.call(touching("src/a"), touching("src/b", number=2), touching("lib/c", number=3))
    begun.resolve(Approve(scope=SOURCES), first)
    statuses = [begun.state.turn.call(call).status for call in (first, second, third)]
    assert statuses == [CallStatus.HELD, CallStatus.HELD, CallStatus.AWAITING]
    begun.resolve(Approve(), third)
    assert [begun.state.turn.call(call).status for call in (first, second, third)] == [CallStatus.RUNNING] * 3
