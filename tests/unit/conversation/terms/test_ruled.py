"""What permission rules do to a call: at its proposal, and right before its run."""

import pytest

from holdfast.conversation import Approve, Execution, SettledBy, SuspensionKind
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.commands import ProposedCall, RunRuled
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict

DENIED = RuleVerdict(effect=RuleEffect.DENY, rule="no-rm", reason="it deletes")


def proposed(tool, ruled, arguments='{"amount":5}'):
    return ProposedCall(tool_call_id="call_a", name=tool, arguments=arguments, ruled=ruled)


@pytest.mark.parametrize("tool", ["lookup", "refund", "ask", "locate", "share"])
def test_a_denied_call_has_a_result_that_names_the_rule_and_its_reason(begun, tool):
    [call] = begun.call(proposed(tool, DENIED))
    assert begun.result(call) == {"ok": False, "error": "denied by the rule 'no-rm': it deletes; it did not run"}
    assert (begun.log[-1].by, begun.log[-1].rule) == (SettledBy.RULE, "no-rm")
    assert begun.effect_ids == ["t1.m2"]


def test_an_allowed_call_runs_without_asking_and_says_by_which_rule(begun):
    [call] = begun.call(proposed("refund", RuleVerdict(effect=RuleEffect.ALLOW, rule="small refunds")))
    assert (begun.log[-1].kind, begun.log[-1].rule, begun.log[-1].approval) == ("run_scheduled", "small refunds", "auto")
    assert begun.run(call).attempt == 1


@pytest.mark.parametrize("tool", ["lookup", "locate"])
def test_a_call_that_a_rule_asks_about_waits_for_an_approval_and_then_goes_on(begun, tool):
    [call] = begun.call(proposed(tool, RuleVerdict(effect=RuleEffect.ASK, rule="look first", reason="it is far")))
    asked = begun.log[-1]
    assert (begun.suspension(call).kind, asked.rule, asked.rule_reason) == (SuspensionKind.APPROVAL, "look first", "it is far")
    begun.resolve(Approve(), call)
    if tool == "lookup":
        assert begun.run(call).attempt == 1
    else:
        begun.rule(call, RuleEffect.ALLOW)
        assert begun.suspension(call).kind is SuspensionKind.CLIENT_EXEC
        assert begun.log[-1].rule_reason == ""


@pytest.mark.parametrize("effect", [RuleEffect.ASK, RuleEffect.ALLOW])
def test_rules_change_nothing_of_a_persons_tool_but_may_deny_it(begun, effect):
    [call] = begun.call(proposed("ask", RuleVerdict(effect=effect, rule="r")))
    assert begun.suspension(call).kind is SuspensionKind.ELICITATION


def test_arguments_that_cannot_be_used_are_told_before_any_rule(begun):
    [call] = begun.call(proposed("lookup", DENIED, arguments="{"))
    assert begun.result(call)["error"].startswith("invalid arguments")


def test_a_rule_that_denies_a_run_about_to_begin_wins_over_its_approval(begun):
    [call] = begun.call("refund")
    begun.resolve(Approve(), call)
    begun.do(RunRuled(effect_id=begun.run(call).effect_id, ruled=DENIED))
    assert begun.result(call)["error"].startswith("denied by the rule 'no-rm'")
    assert begun.log[-1].by is SettledBy.RULE


def test_a_rule_that_asks_about_a_run_about_to_begin_asks_once_and_an_approval_stands(begun):
    [call] = begun.call("lookup")
    asks = RuleVerdict(effect=RuleEffect.ASK, rule="look first", reason="it is far")
    begun.do(RunRuled(effect_id=begun.run(call).effect_id, ruled=asks))
    assert begun.suspension(call).kind is SuspensionKind.APPROVAL
    assert (begun.log[-1].rule, begun.log[-1].rule_reason) == ("look first", "it is far")
    begun.resolve(Approve({"amount": 3}), call)
    run = begun.run(call)
    assert (run.attempt, run.resumed) == (2, 1)  # the first run had not begun: this is the first attempt
    begun.do(RunRuled(effect_id=run.effect_id, ruled=asks))
    assert begun.state.turn.call(call).status is CallStatus.RUNNING
    assert begun.run(call).attempt == 3


def test_a_verdict_that_comes_late_is_ignored(begun):
    [call] = begun.call("lookup")
    effect_id = begun.run(call).effect_id
    begun.finish(call)
    assert begun.do(RunRuled(effect_id=effect_id, ruled=DENIED)).ignored


def test_a_call_that_is_asked_about_when_its_turn_comes_says_then_why(conversations):
    spec = conversations.desk_with().model_copy(update={"execution": Execution.SEQUENTIAL})
    begun = conversations(spec=spec).begun()
    asks = RuleVerdict(effect=RuleEffect.ASK, rule="look first", reason="it is far")
    first, second = begun.call("lookup", proposed("post", asks))
    assert (begun.state.turn.call(second).status, begun.log[-1].rule_reason) == (CallStatus.HELD, "it is far")
    begun.finish(first)
    assert (begun.log[-1].kind, begun.log[-1].rule, begun.log[-1].rule_reason) == ("call_suspended", "look first", "it is far")
