"""Runs: outcomes that are due, late, or lost."""

import pytest

from holdfast.conversation import Approve, ModelFailed, ModelReplied, RunFinished, Status
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.commands import RunLost, TurnPrepared


def test_an_outcome_is_its_calls_result(begun):
    [call] = begun.call("lookup")
    begun.finish(call, '{"ok":true,"result":[1]}')
    assert begun.result(call) == {"ok": True, "result": [1]}
    assert begun.log[-1].by == "run"


def test_a_lost_run_is_dispatched_again_with_the_next_attempt(begun):
    # given a run of a tool that may run again
    [call] = begun.call("lookup")
    first = begun.run(call)
    # when its worker is gone
    before = len(begun.log)
    begun.lose(call)
    # then it runs again under the same idempotency key, and an event says so
    second = begun.run(call)
    assert begun.kinds(before) == ["run_scheduled"]
    assert (second.attempt, second.tool_call_id, second.arguments_at) == (2, call, first.arguments_at)
    assert second.effect_id != first.effect_id
    # and again
    begun.lose(call)
    assert begun.run(call).attempt == 3


def test_a_lost_run_of_a_tool_that_must_not_run_again_is_an_error(begun):
    [call] = begun.call("charge")
    begun.lose(call)
    result = begun.result(call)
    assert result["ok"] is False
    assert "outcome unknown" in result["error"]
    assert begun.effect_ids == ["t1.m2"]


def test_a_lost_run_that_was_approved_is_not_run_again_by_itself(begun):
    [call] = begun.call("refund")
    begun.resolve(Approve(arguments={"amount": 1}), call)
    begun.lose(call)
    assert "outcome unknown" in begun.result(call)["error"]


def test_the_outcome_of_a_lost_attempt_is_late(begun):
    # given a run that was dispatched again
    [call] = begun.call("lookup")
    lost = begun.run(call).effect_id
    begun.lose(call)
    # when the lost attempt is heard of after all
    with begun.unchanged():
        finished = begun.do(RunFinished(effect_id=lost, ok=True, content='{"ok":true,"result":"late"}'))
        again = begun.do(RunLost(effect_id=lost))
    # then only the second attempt counts
    assert finished.ignored
    assert again.ignored
    begun.finish(call, '{"ok":true,"result":"second"}')
    assert begun.result(call)["result"] == "second"


def test_an_outcome_counts_once(begun):
    [call, _other] = begun.call("lookup", "ask")
    effect_id = begun.run(call).effect_id
    begun.finish(call)
    with begun.unchanged():
        assert begun.do(RunFinished(effect_id=effect_id, ok=False, content='{"ok":false,"error":"no"}')).ignored
        assert begun.do(RunLost(effect_id=effect_id)).ignored


def test_an_outcome_after_the_cancellation_is_late(begun):
    [call] = begun.call("lookup")
    effect_id = begun.run(call).effect_id
    begun.cancel()
    with begun.unchanged():
        assert begun.do(RunFinished(effect_id=effect_id, ok=True, content='{"ok":true,"result":1}')).ignored
    assert begun.state.turn is None
    assert "cancelled" in begun.result(call)["error"]


def test_a_model_answers_once(begun):
    begun.call("ask")
    with begun.unchanged():
        assert begun.do(ModelReplied(effect_id="t1.m1", content="again")).ignored
        assert begun.do(ModelFailed(effect_id="t1.m1", error="late")).ignored


def test_a_model_answer_after_the_cancellation_is_late(begun):
    begun.send("second")
    begun.cancel()
    begun.begin()
    with begun.unchanged():
        assert begun.do(ModelReplied(effect_id="t1.m1", content="late")).ignored
    assert begun.effect_ids == ["t2.m1"]


def test_a_turn_begins_once(conversation):
    conversation.start()
    effect_id = conversation.effect_ids[0]
    conversation.begin()
    with conversation.unchanged():
        assert conversation.do(TurnPrepared(effect_id=effect_id)).ignored
    conversation.cancel()
    with conversation.unchanged():
        assert conversation.do(TurnPrepared(effect_id=effect_id)).ignored


@pytest.mark.parametrize("effect_id", ["", "t1.m2", "t9.m1", "begin:2", "call-2#1", "nonsense"])
@pytest.mark.parametrize("outcome", [TurnPrepared, ModelReplied, ModelFailed, RunFinished, RunLost])
def test_an_outcome_of_what_is_not_outstanding_changes_nothing(begun, outcome, effect_id):
    more = {ModelFailed: {"error": "x"}, RunFinished: {"ok": True, "content": "{}"}}.get(outcome, {})
    with begun.unchanged():
        assert begun.do(outcome(effect_id=effect_id, **more)).ignored


@pytest.mark.parametrize("outcome", [TurnPrepared, RunFinished, RunLost])
def test_an_outcome_of_another_kind_than_its_effect_changes_nothing(begun, outcome):
    more = {RunFinished: {"ok": True, "content": "{}"}}.get(outcome, {})
    with begun.unchanged():
        assert begun.do(outcome(effect_id="t1.m1", **more)).ignored


@pytest.mark.parametrize("outcome", [ModelReplied, ModelFailed, RunLost])
def test_a_models_outcome_does_not_begin_a_turn(conversation, outcome):
    conversation.start()
    more = {"error": "x"} if outcome is ModelFailed else {}
    with conversation.unchanged():
        assert conversation.do(outcome(effect_id=conversation.effect_ids[0], **more)).ignored


def test_outcomes_count_while_other_calls_wait(begun):
    run, charge, _ask = begun.call("lookup", "charge", "ask")
    begun.finish(run)
    begun.lose(charge)
    statuses = [call.status for call in begun.state.calls]
    assert statuses == [CallStatus.RESOLVED, CallStatus.ERRORED, CallStatus.AWAITING]
    assert begun.status is Status.AWAITING_INPUT
