"""Decisions: at most once, bound to what was shown, and refused with a reason."""

import pytest

from holdfast.conversation import (
    Answer,
    Approve,
    Cancel,
    Deny,
    Fail,
    Redispatch,
    Resolve,
    Review,
    Status,
    SuspensionKind,
    ToolSpec,
)
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.terms.decisions import DecisionKind, DecisionRecord, accepted
from holdfast.conversation.terms.rule_verdict import RuleEffect
from holdfast.errors import ConversationEnded, ConversationNotFound, InvalidDecision, StaleCall, StaleReason

FALSY = [False, 0, "", None, [], {}, 0.0]
DECISIONS = {
    DecisionKind.APPROVE: Approve(),
    DecisionKind.DENY: Deny("no"),
    DecisionKind.ANSWER: Answer({"years": 7}),
    DecisionKind.FAIL: Fail("no GPS"),
    DecisionKind.REDISPATCH: Redispatch(),
    DecisionKind.CANCEL: Cancel("not needed"),
    DecisionKind.REVIEW: Review("allow", "fine"),
}


# At most once (guarantee 2).


def test_the_receipt_names_the_event_that_records_the_decision(begun):
    [call] = begun.call("ask")
    receipt = begun.resolve(Answer("blue"), call, decision_id="d-1").reply
    recorded = begun.log[receipt.seq - 1]
    assert (recorded.kind, recorded.decision_id, recorded.at) == ("suspension_settled", "d-1", receipt.accepted_at)
    assert not receipt.duplicate
    assert receipt.conversation_id == "c-1"


def test_the_same_decision_again_gets_the_first_receipt(begun):
    # given a decision that was accepted
    [call] = begun.call("ask")
    first = begun.resolve(Answer("blue"), call, decision_id="d-1").reply
    # when it comes again, at once and after the turn
    with begun.unchanged():
        again = begun.resolve(Answer("blue"), call, decision_id="d-1").reply
    begun.reply()
    with begun.unchanged():
        much_later = begun.resolve(Answer("blue"), call, decision_id="d-1").reply
    # then the receipt is the first one, marked
    assert again == much_later == first.model_copy(update={"duplicate": True})


@pytest.mark.parametrize(
    ("call", "decision"),
    [(0, Answer("red")), (0, Answer(None)), (0, Deny("blue")), (1, Answer("blue")), (0, Approve())],
    ids=["other value", "null", "other kind", "other call", "no body"],
)
def test_one_decision_id_with_two_payloads_is_refused(begun, call, decision):
    # given two calls that wait, and one decision
    calls = begun.call("ask", "ask")
    begun.resolve(Answer("blue"), calls[0], decision_id="d-1")
    # when its id comes with another payload
    with begun.unchanged(), pytest.raises(InvalidDecision) as refusal:
        begun.resolve(decision, calls[call], decision_id="d-1")
    # then the id is what is wrong
    assert refusal.value.field == "decision_id"
    assert "'d-1'" in refusal.value.problem


def test_a_refused_decision_leaves_its_id_free(begun):
    [call] = begun.call("age")
    with pytest.raises(InvalidDecision):
        begun.resolve(Answer({"years": "seven"}), call, decision_id="d-1")
    assert not begun.resolve(Answer({"years": 7}), call, decision_id="d-1").reply.duplicate


def test_a_second_decision_is_stale_and_told_what_settled_it_and_when(begun):
    # given a call that one person answered
    [call] = begun.call("ask")
    shown = begun.suspension(call).suspension_id
    first = begun.resolve(Answer("blue"), call, suspension_id=shown).reply
    # when another answers too
    with begun.unchanged(), pytest.raises(StaleCall) as refusal:
        begun.resolve(Answer("red"), call, suspension_id=shown)
    # then the second learns about the first
    stale = refusal.value
    assert (stale.conversation_id, stale.tool_call_id) == ("c-1", call)
    assert (stale.reason, stale.settled_by, stale.settled_at) == (StaleReason.ALREADY_RESOLVED, "answer", first.accepted_at)


@pytest.mark.parametrize("decision", [Answer("red"), Deny("no"), Answer("blue")])
def test_a_second_decision_is_stale_also_without_naming_the_suspension(begun, decision):
    [call] = begun.call("ask")
    first = begun.resolve(Answer("blue"), call).reply
    with begun.unchanged(), pytest.raises(StaleCall) as refusal:
        begun.resolve(decision, call)
    stale = refusal.value
    assert (stale.reason, stale.settled_by, stale.settled_at) == (StaleReason.ALREADY_RESOLVED, "answer", first.accepted_at)


def test_a_second_approval_is_stale_while_the_first_one_runs(begun):
    # given an approved call that runs
    [call] = begun.call("refund")
    shown = begun.suspension(call).suspension_id
    first = begun.resolve(Approve(), call, suspension_id=shown).reply
    assert begun.status is Status.EXECUTING_TOOLS
    # when it is denied
    with begun.unchanged(), pytest.raises(StaleCall) as refusal:
        begun.resolve(Deny("stop"), call, suspension_id=shown)
    # then the approval stands
    stale = refusal.value
    assert (stale.reason, stale.settled_by, stale.settled_at) == (StaleReason.ALREADY_RESOLVED, "approve", first.accepted_at)


def test_a_second_approval_without_a_suspension_id_is_told_when_the_first_one_was(begun):
    [call] = begun.call("refund")
    first = begun.resolve(Approve(), call).reply
    with pytest.raises(StaleCall) as refusal:
        begun.resolve(Approve(), call)
    stale = refusal.value
    assert (stale.reason, stale.settled_by, stale.settled_at) == (StaleReason.ALREADY_RESOLVED, "approve", first.accepted_at)


def test_an_approval_after_the_run_is_told_of_the_decision_whether_or_not_it_names_the_suspension(begun):
    [call] = begun.call("refund")
    first = begun.resolve(Approve(), call).reply
    begun.finish(call)
    with pytest.raises(StaleCall) as refusal:
        begun.resolve(Approve(), call)
    assert (refusal.value.settled_by, refusal.value.settled_at) == ("approve", first.accepted_at)


def test_a_decision_after_the_turn_is_stale(begun):
    [call] = begun.call("refund")
    shown = begun.suspension(call).suspension_id
    first = begun.resolve(Deny("too much"), call, suspension_id=shown).reply
    begun.reply()
    with begun.unchanged(), pytest.raises(StaleCall) as refusal:
        begun.resolve(Approve(), call, suspension_id=shown)
    stale = refusal.value
    assert (stale.reason, stale.settled_by, stale.settled_at) == (StaleReason.ALREADY_RESOLVED, "deny", first.accepted_at)


@pytest.mark.parametrize("named", [True, False], ids=["suspension named", "suspension left out"])
def test_a_late_answer_to_an_expired_call_is_stale(begun, named):
    [call] = begun.call("ask", "locate")[:1]
    shown = begun.suspension(call)
    begun.wake(at=shown.expires_at)
    with begun.unchanged(), pytest.raises(StaleCall) as refusal:
        begun.resolve(Answer("blue"), call, suspension_id=shown.suspension_id if named else None)
    stale = refusal.value
    assert (stale.reason, stale.settled_by, stale.settled_at) == (StaleReason.EXPIRED, "expiry", shown.expires_at)


@pytest.mark.parametrize("named", [True, False], ids=["suspension named", "suspension left out"])
def test_a_late_answer_to_a_cancelled_call_is_stale(begun, named):
    [call] = begun.call("ask")
    shown = begun.suspension(call).suspension_id
    begun.cancel()
    cancelled_at = begun.now
    with begun.unchanged(), pytest.raises(StaleCall) as refusal:
        begun.resolve(Answer("blue"), call, suspension_id=shown if named else None)
    stale = refusal.value
    assert (stale.reason, stale.settled_by, stale.settled_at) == (StaleReason.CANCELLED, "cancellation", cancelled_at)


def test_an_answer_to_an_unknown_call_is_stale(begun):
    begun.call("ask")
    with begun.unchanged(), pytest.raises(StaleCall) as refusal:
        begun.resolve(Answer("blue"), "call-99")
    stale = refusal.value
    assert (stale.reason, stale.settled_by, stale.settled_at) == (StaleReason.UNKNOWN, None, None)


@pytest.mark.parametrize("moment", ["waiting", "settled"])
def test_an_answer_to_an_unknown_suspension_of_a_known_call_is_stale(begun, moment):
    [call] = begun.call("ask")
    if moment == "settled":
        begun.resolve(Answer(1), call)
    with begun.unchanged(), pytest.raises(StaleCall) as refusal:
        begun.resolve(Answer("blue"), call, suspension_id="s-made-up")
    assert refusal.value.reason is StaleReason.UNKNOWN


def test_a_suspension_of_another_call_is_unknown_to_this_one(begun):
    ask, other = begun.call("ask", "ask")
    elsewhere = begun.suspension(other).suspension_id
    with begun.unchanged(), pytest.raises(StaleCall) as waiting:
        begun.resolve(Answer("blue"), ask, suspension_id=elsewhere)
    begun.resolve(Answer(1), other)
    with begun.unchanged(), pytest.raises(StaleCall) as settled:
        begun.resolve(Answer("blue"), ask, suspension_id=elsewhere)
    assert waiting.value.reason is settled.value.reason is StaleReason.UNKNOWN


def test_a_server_call_that_never_asked_takes_no_decision(begun):
    [call] = begun.call("lookup")
    with begun.unchanged(), pytest.raises(StaleCall) as refusal:
        begun.resolve(Approve(), call)
    assert refusal.value.reason is StaleReason.UNKNOWN


def test_a_decision_for_a_conversation_that_was_never_there_is_refused(conversation):
    with conversation.unchanged(), pytest.raises(ConversationNotFound, match="'c-1' was never started"):
        conversation.resolve(Approve(), "call-1")


def test_a_new_decision_for_a_conversation_that_has_ended_is_refused(begun):
    [call] = begun.call("ask")
    begun.end()
    with begun.unchanged(), pytest.raises(ConversationEnded, match="'c-1' has ended"):
        begun.resolve(Answer(1), call)


@pytest.mark.parametrize("decision_id", ["two words", "é", "x" * 201, "tab\t", "line\n"])
def test_an_ill_formed_decision_id_is_refused(begun, decision_id):
    [call] = begun.call("ask")
    with begun.unchanged(), pytest.raises(InvalidDecision) as refusal:
        begun.resolve(Answer(1), call, decision_id=decision_id)
    assert refusal.value.field == "decision_id"


def test_an_empty_decision_id_is_refused(begun):
    [call] = begun.call("ask")
    with begun.unchanged(), pytest.raises(InvalidDecision) as refusal:
        begun.do(Resolve(tool_call_id=call, ruling=DecisionRecord.of(Answer(1)), decision_id=""))
    assert refusal.value.field == "decision_id"


# Bound to what was shown (guarantee 3).


def test_an_approval_is_not_a_result(begun):
    # given a gated call
    [call] = begun.call("refund")
    # when it is approved
    before = len(begun.log)
    begun.resolve(Approve(), call)
    # then it runs, and the model waits
    assert begun.kinds(before) == ["suspension_settled", "run_scheduled"]
    assert begun.effect_ids == [f"{call}#1"]
    assert begun.state.turn.call(call).status is CallStatus.RUNNING


def test_a_gated_client_call_waits_twice(begun):
    # given a gated client call
    [call] = begun.call("share")
    approval = begun.suspension(call)
    assert approval.kind is SuspensionKind.APPROVAL
    # when it is approved, and the rules in force let it go
    begun.approve(call)
    # then it waits for the client, as another suspension with a deadline of its own
    execution = begun.suspension(call)
    assert execution.kind is SuspensionKind.CLIENT_EXEC
    assert execution.suspension_id != approval.suspension_id
    assert execution.expires_at == begun.now + 60_000
    assert begun.effect_ids == []
    # and the client's answer, named, is the result
    begun.resolve(Answer({"years": 7}), call, suspension_id=execution.suspension_id)
    assert begun.result(call) == {"ok": True, "result": {"years": 7}, "untrusted": True}


def test_the_suspension_of_an_earlier_phase_is_superseded(begun):
    [call] = begun.call("share")
    approval = begun.suspension(call).suspension_id
    first = begun.approve(call).reply
    for decision in (Approve(), Deny("no"), Answer({"years": 7}), Fail("x")):
        with begun.unchanged(), pytest.raises(StaleCall) as refusal:
            begun.resolve(decision, call, suspension_id=approval)
        stale = refusal.value
        assert (stale.reason, stale.settled_by, stale.settled_at) == (StaleReason.SUPERSEDED, "approve", first.accepted_at)


def test_no_suspension_id_where_two_have_been_is_refused(begun):
    [call] = begun.call("share")
    begun.resolve(Approve(), call)  # only one has been yet
    begun.rule(call, RuleEffect.ALLOW)
    with begun.unchanged(), pytest.raises(InvalidDecision) as refusal:
        begun.resolve(Answer({"years": 7}), call)
    assert refusal.value.field == "suspension_id"
    assert "PendingCall.suspension_id" in refusal.value.fix


def test_a_gated_client_call_that_is_denied_never_reaches_the_client(begun):
    [call] = begun.call("share")
    begun.resolve(Deny("private"), call)
    assert begun.result(call) == {"ok": False, "error": "the user denied this call: private"}
    assert begun.kinds().count("call_suspended") == 1


def test_edited_arguments_run_instead_of_the_models(begun):
    # given a gated call
    [call] = begun.call(("refund", '{"amount":99}'))
    asked_at = begun.state.turn.call(call).arguments_at
    # when it is approved with other arguments
    receipt = begun.resolve(Approve(arguments={"amount": 10}), call).reply
    # then the run takes its arguments from the decision
    run = begun.run(call)
    assert run.arguments_at == receipt.seq != asked_at
    assert begun.log[receipt.seq - 1].body == '{"amount":10}'


def test_an_approval_that_edits_nothing_runs_the_models_arguments(begun):
    [call] = begun.call(("refund", '{"amount":99}'))
    asked_at = begun.state.turn.call(call).arguments_at
    begun.resolve(Approve(), call)
    assert begun.run(call).arguments_at == asked_at
    assert begun.log[asked_at - 1].calls[0].arguments == '{"amount":99}'


def test_an_empty_edit_is_an_edit(conversations):
    # given a gated tool that takes no arguments by its schema
    conversation = conversations(spec=conversations.desk_with(refund={"parameters": '{"type":"object"}'})).begun()
    [call] = conversation.call("refund")
    # when the person empties the arguments
    receipt = conversation.resolve(Approve(arguments={}), call).reply
    # then it runs with none
    assert conversation.run(call).arguments_at == receipt.seq


def test_edited_arguments_of_a_gated_client_call_are_what_the_client_is_shown(begun):
    [call] = begun.call("share")
    receipt = begun.approve(call, Approve(arguments={"amount": 1})).reply
    assert begun.state.turn.call(call).arguments_at == receipt.seq
    assert (begun.log[-1].kind, begun.log[-1].arguments_at) == ("call_suspended", receipt.seq)


def test_suspension_ids_tell_conversations_calls_and_arguments_apart(conversations):
    # given the same call id with the same and with other arguments, in three conversations
    def shown(conversation_id, arguments):
        conversation = conversations(conversation_id).begun()
        calls = conversation.call(("ask", arguments), ("ask", arguments))
        return [conversation.suspension(call).suspension_id for call in calls]

    ids = [*shown("c-1", "{}"), *shown("c-2", "{}"), *shown("c-1", '{"amount":5}')]
    # then no two suspensions share an id, and the same one has the same id always
    assert len(set(ids)) == 6
    assert shown("c-1", "{}") == ids[:2]


def test_the_second_suspension_has_an_id_of_its_own_even_if_its_arguments_are_the_same(begun):
    # given a gated client call, approved with the very arguments that the model gave
    [call] = begun.call(("share", '{"amount":5}'))
    approval = begun.suspension(call).suspension_id
    begun.approve(call, Approve(arguments={"amount": 5}))
    # then what the client is shown is another suspension
    assert begun.suspension(call).suspension_id != approval


# The content: kinds, schemas, JSON (guarantee 11).


def test_each_kind_of_suspension_takes_the_decisions_of_the_design():
    approve, deny, answer, fail, redispatch, cancel, review = DecisionKind
    usual = {kind: accepted(kind, ToolSpec(name="t").decisions, with_schema=False) for kind in SuspensionKind}
    assert usual == {
        SuspensionKind.APPROVAL: (approve, deny, cancel),
        SuspensionKind.ELICITATION: (answer, deny, cancel),
        SuspensionKind.CLIENT_EXEC: (answer, fail, cancel),
        SuspensionKind.LOST: (redispatch, answer, fail, cancel),
        SuspensionKind.REVIEW: (review, cancel),
        SuspensionKind.DELEGATE: (cancel,),
        SuspensionKind.LIMIT: (approve, deny),
    }
    assert accepted(SuspensionKind.APPROVAL, ["edit", "answer"], with_schema=False) == (approve, answer, cancel)
    assert accepted(SuspensionKind.REVIEW, (), with_schema=True) == (review, answer, cancel)


@pytest.mark.parametrize("waits_for", list(SuspensionKind))
@pytest.mark.parametrize("kind", list(DecisionKind))
def test_a_decision_of_the_wrong_kind_is_refused_and_says_which_would_do(begun, waits_for, kind):
    call = begun.waiting_for(waits_for)
    decision = DECISIONS[kind]
    takes = accepted(waits_for, begun.spec.tool("refund").decisions, with_schema=True)
    if kind in takes:
        assert begun.resolve(decision, call).reply.seq
        return
    with begun.unchanged(), pytest.raises(InvalidDecision) as refusal:
        begun.resolve(decision, call)
    assert refusal.value.field == "decision"
    assert waits_for.value in refusal.value.problem
    assert all(one.value in refusal.value.fix for one in takes)


@pytest.mark.parametrize(
    ("value", "where"),
    [({"years": "seven"}, "$.years"), ({}, "$"), ([], "$"), (None, "$"), (False, "$"), (0, "$"), ("", "$")],
)
def test_an_answer_that_breaks_the_schema_says_where(begun, value, where):
    [call] = begun.call("age")
    with begun.unchanged(), pytest.raises(InvalidDecision) as refusal:
        begun.resolve(Answer(value), call)
    assert refusal.value.field == "decision.value"
    assert refusal.value.problem.startswith(f"{where}: ")


@pytest.mark.parametrize(
    ("arguments", "where"),
    [({"amount": 101}, "$.amount"), ({"amount": "5"}, "$.amount"), ({}, "$"), ({"amount": None}, "$.amount")],
)
@pytest.mark.parametrize("tool", ["refund", "share"])
def test_edited_arguments_that_break_the_schema_say_where(begun, tool, arguments, where):
    [call] = begun.call(tool)
    with begun.unchanged(), pytest.raises(InvalidDecision) as refusal:
        begun.resolve(Approve(arguments=arguments), call)
    assert refusal.value.field == "decision.arguments"
    assert refusal.value.problem.startswith(f"{where}: ")


@pytest.mark.parametrize("body", ["[]", "5", '"x"', "null", "true"])
def test_edited_arguments_that_are_no_object_are_refused(begun, body):
    [call] = begun.call("refund")
    with begun.unchanged(), pytest.raises(InvalidDecision) as refusal:
        begun.resolve(DecisionRecord(kind=DecisionKind.APPROVE, body=body), call)
    assert refusal.value.field == "decision.arguments"


@pytest.mark.parametrize("body", [" ", "{", "NaN", "[Infinity]", '"\\ud800"', "'x'", "nope", "1 2", '"\ud800"'])
def test_a_body_that_is_not_json_is_refused(begun, body):
    [call] = begun.call("ask")
    with begun.unchanged(), pytest.raises(InvalidDecision) as refusal:
        begun.resolve(DecisionRecord(kind=DecisionKind.ANSWER, body=body), call)
    assert refusal.value.field == "decision"


@pytest.mark.parametrize(
    ("decision", "field"),
    [
        (Answer(float("nan")), "decision.value"),
        (Answer({"at": [1, object()]}), "decision.value"),
        (Answer(b"bytes"), "decision.value"),
        (Answer({1: "one"}), "decision.value"),
        (Answer("\ud800"), "decision.value"),
        (Approve(arguments=[("amount", 5)]), "decision.arguments"),
        (Approve(arguments={"amount": {5}}), "decision.arguments"),
        (Deny(None), "decision.reason"),
        (Deny("\udfff"), "decision.reason"),
        (Fail(ValueError("x")), "decision.error"),
        ("approve", "decision"),
        (None, "decision"),
        (Approve, "decision"),
    ],
)
def test_what_is_no_decision_is_refused_before_it_travels(decision, field):
    with pytest.raises(InvalidDecision) as refusal:
        DecisionRecord.of(decision)
    assert refusal.value.field == field
    assert refusal.value.fix


def test_the_error_names_the_place_inside_a_result():
    with pytest.raises(InvalidDecision, match=r"\$\.at\[1\]: object is not JSON"):
        DecisionRecord.of(Answer({"at": [1, object()]}))


@pytest.mark.parametrize(
    ("tool", "kind", "body"),
    [
        ("age", DecisionKind.ANSWER, None),
        ("ask", DecisionKind.ANSWER, None),
        ("ask", DecisionKind.ANSWER, ""),
        ("ask", DecisionKind.DENY, None),
        ("locate", DecisionKind.FAIL, None),
    ],
)
def test_only_an_approval_may_come_without_a_body(begun, tool, kind, body):
    [call] = begun.call(tool)
    with pytest.raises((InvalidDecision, ValueError)):
        begun.resolve(DecisionRecord(kind=kind, body=body), call)


@pytest.mark.parametrize(("tool", "kind"), [("ask", DecisionKind.DENY), ("locate", DecisionKind.FAIL)])
def test_a_reason_or_error_that_is_no_string_is_refused(begun, tool, kind):
    [call] = begun.call(tool)
    with pytest.raises(InvalidDecision):
        begun.resolve(DecisionRecord(kind=kind, body='{"ok":true}'), call)


# Falsy answers are answers (guarantee 9).


@pytest.mark.parametrize("value", FALSY, ids=repr)
@pytest.mark.parametrize("tool", ["ask", "locate"])
def test_a_falsy_answer_is_an_answer(begun, tool, value):
    # given a call that waits for a person or a client
    [call] = begun.call(tool)
    # when the answer is falsy
    begun.resolve(Answer(value), call)
    # then it is the result like any other
    result = begun.result(call)
    assert result["ok"] is True
    assert result["result"] == value
    assert type(result["result"]) is type(value)
    assert begun.status is Status.GENERATING


@pytest.mark.parametrize("decision", [Deny(), Deny("")])
def test_a_denial_without_a_reason_is_a_denial(begun, decision):
    refund, ask = begun.call("refund", "ask")
    begun.resolve(decision, refund)
    begun.resolve(decision, ask)
    assert begun.result(refund) == {"ok": False, "error": "the user denied this call"}
    assert begun.result(ask) == {"ok": False, "error": "the user declined to answer"}


def test_a_denial_carries_its_reason_to_the_model(begun):
    refund, ask = begun.call("refund", "ask")
    begun.resolve(Deny("over my limit"), refund)
    begun.resolve(Deny("rather not"), ask)
    assert begun.result(refund) == {"ok": False, "error": "the user denied this call: over my limit"}
    assert begun.result(ask) == {"ok": False, "error": "the user declined to answer: rather not"}
    assert begun.effect_ids == ["t1.m2"]


def test_a_client_that_fails_tells_the_model_why(begun):
    [call] = begun.call("locate")
    begun.resolve(Fail("permission denied"), call)
    assert begun.result(call) == {"ok": False, "error": "the client failed: permission denied", "untrusted": True}
