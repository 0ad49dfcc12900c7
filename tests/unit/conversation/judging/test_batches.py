"""Several decisions at once: all of them are taken, or none."""

import pytest
from writer import resolve_many

from holdfast.conversation import Answer, Approve, Deny, Redispatch, Status
from holdfast.conversation.judging import deciding
from holdfast.errors import BatchRefused, InvalidDecision, StaleCall, StaleReason


@pytest.fixture
def three(begun):
    """A conversation in which three calls of one answer wait, and their ids."""
    return begun, begun.call("refund", "ask", "ship")


def test_the_calls_of_one_answer_have_one_batch_and_those_of_the_next_another(three):
    begun, calls = three
    assert {event.batch_id for event in begun.log if event.kind == "call_suspended"} == {"t1.m1"}
    begun.resolve_many({calls[0]: Deny(), calls[1]: Answer(1), calls[2]: Deny()})
    begun.call("ask")
    assert begun.log[-1].batch_id == "t1.m2"


def test_all_are_settled_and_each_has_a_receipt(three):
    begun, calls = three
    receipts = begun.resolve_many(
        {calls[0]: Approve({"amount": 3}), calls[1]: Answer("blue"), calls[2]: Deny("no")}
    ).reply.receipts

    assert [begun.log[receipt.seq - 1].tool_call_id for receipt in receipts] == calls
    assert begun.result(calls[1]) == {"ok": True, "result": "blue"}
    assert begun.effect_ids == [f"{calls[0]}#1"]


def test_one_that_cannot_be_taken_leaves_all_as_they_were_and_is_named(three):
    begun, calls = three
    shown = begun.suspension(calls[0]).suspension_id
    with begun.unchanged(), pytest.raises(BatchRefused) as refusal:
        begun.resolve_many({calls[0]: Approve({"amount": 1000}), calls[1]: Answer(1), "s-unknown": Deny()})
    errors = refusal.value.errors
    assert set(errors) == {shown, "s-unknown"}
    assert isinstance(errors[shown], InvalidDecision)
    assert isinstance(errors["s-unknown"], StaleCall)
    assert shown in str(refusal.value)


def test_one_that_is_settled_already_is_told_by_what(three):
    begun, calls = three
    shown = begun.suspension(calls[1]).suspension_id
    begun.resolve(Answer("red"), calls[1])
    with begun.unchanged(), pytest.raises(BatchRefused) as refusal:
        begun.resolve_many({calls[0]: Approve(), shown: Answer("blue")})
    assert refusal.value.errors[shown].reason is StaleReason.ALREADY_RESOLVED
    assert refusal.value.errors[shown].settled_by == "answer"


def test_the_same_decisions_again_get_the_first_receipts(three):
    begun, calls = three
    named = {begun.suspension(call).suspension_id: Deny("no") for call in calls}
    first = begun.resolve_many(named, decision_id="d-1").reply.receipts
    with begun.unchanged():
        again = begun.resolve_many(named, decision_id="d-1").reply.receipts

    assert again == tuple(receipt.model_copy(update={"duplicate": True}) for receipt in first)


@pytest.mark.parametrize("change", ["fewer", "other", "more"])
def test_one_id_with_other_decisions_is_refused(three, change):
    begun, calls = three
    named = [begun.suspension(call).suspension_id for call in calls]
    begun.resolve_many(dict.fromkeys(named[:2], Deny("no")), decision_id="d-1")
    other = {
        "fewer": {named[1]: Deny("no")},
        "other": {named[0]: Deny("no"), named[1]: Deny("yes")},
        "more": dict.fromkeys(named, Deny("no")),
    }[change]
    with begun.unchanged(), pytest.raises(InvalidDecision) as refusal:
        begun.resolve_many(other, decision_id="d-1")
    assert refusal.value.field == "decision_id"


def test_no_decisions_and_two_for_one_suspension_are_refused(three):
    begun, calls = three
    with begun.unchanged(), pytest.raises(InvalidDecision):
        begun.resolve_many({})
    command = resolve_many({calls[0]: Deny()})(begun.state)
    twice = command.model_copy(update={"decisions": command.decisions * 2})
    with begun.unchanged(), pytest.raises(InvalidDecision) as refusal:
        begun.do(twice)
    assert "one suspension" in refusal.value.problem


def test_a_decision_of_the_wrong_kind_is_named_too(three):
    begun, calls = three
    with begun.unchanged(), pytest.raises(BatchRefused):
        begun.resolve_many({calls[0]: Redispatch(), calls[1]: Answer(1)})
    assert begun.status is Status.AWAITING_INPUT


def test_decisions_that_are_too_much_together_are_refused(three, monkeypatch):
    begun, calls = three
    monkeypatch.setattr(deciding, "MOST_BYTES", 20)
    with begun.unchanged(), pytest.raises(InvalidDecision) as refusal:
        begun.resolve_many({calls[0]: Deny("too expensive"), calls[2]: Deny("too expensive")})
    assert "20 are allowed together" in refusal.value.problem


def test_a_decision_for_an_earlier_wait_of_a_call_is_superseded_there_too(begun):
    [call] = begun.call("share")
    first = begun.suspension(call).suspension_id
    begun.approve(call)
    with begun.unchanged(), pytest.raises(BatchRefused) as refusal:
        begun.resolve_many({first: Deny()})
    assert refusal.value.errors[first].reason is StaleReason.SUPERSEDED
