"""How the calls of one answer are carried out: side by side, one after the other, or once all are decided."""

import pytest
from writer import resolve

from holdfast.conversation import Answer, Approve, Deny, Execution, State, Status, evolve
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.commands import RunRuled
from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict
from holdfast.errors import StaleCall
from holdfast.persistence import codec


@pytest.fixture
def executing(conversations):
    """Makes a conversation whose agent carries calls out in that way."""

    def made(execution):
        desk = conversations.desk_with().model_copy(update={"execution": execution})
        return conversations(spec=desk).begun()

    return made


def status(conversation, *calls):
    return [conversation.state.turn.call(call).status for call in calls]


RUNNING, AWAITING, HELD, RESOLVED, ERRORED = (
    CallStatus.RUNNING,
    CallStatus.AWAITING,
    CallStatus.HELD,
    CallStatus.RESOLVED,
    CallStatus.ERRORED,
)


def test_in_parallel_nothing_waits_for_another(executing):
    begun = executing(Execution.PARALLEL)
    calls = begun.call("lookup", "refund", "post")
    assert status(begun, *calls) == [RUNNING, AWAITING, RUNNING]
    assert "call_held" not in begun.kinds()


def test_in_sequence_each_begins_when_the_one_before_it_is_done(executing):
    begun = executing(Execution.SEQUENTIAL)
    calls = begun.call("lookup", "post", "charge")
    assert status(begun, *calls) == [RUNNING, HELD, HELD]
    begun.finish(calls[0])
    assert status(begun, *calls) == [RESOLVED, RUNNING, HELD]
    begun.finish(calls[1], '{"ok":false,"error":"no"}', ok=False)
    assert status(begun, *calls) == [RESOLVED, ERRORED, RUNNING]
    begun.finish(calls[2])
    assert begun.effect_ids == ["t1.m2"]


def test_in_sequence_what_follows_a_wait_waits_too_whatever_ends_it(executing):
    for decision, ends in ((Approve(), RUNNING), (Deny(), ERRORED)):
        begun = executing(Execution.SEQUENTIAL)
        calls = begun.call("refund", "lookup")
        assert status(begun, *calls) == [AWAITING, HELD]
        begun.resolve(decision, calls[0])
        assert status(begun, *calls)[0] is ends
        if ends is RUNNING:
            assert status(begun, calls[1]) == [HELD]
            begun.finish(calls[0])
        assert status(begun, calls[1]) == [RUNNING]


def test_in_sequence_a_call_that_cannot_be_used_holds_nothing_up(executing):
    begun = executing(Execution.SEQUENTIAL)
    calls = begun.call("nothing", "lookup", "exact")
    assert status(begun, *calls) == [ERRORED, RUNNING, HELD]


def test_a_held_call_that_asks_is_shown_with_its_prompt_when_its_turn_comes(executing):
    begun = executing(Execution.SEQUENTIAL)
    calls = begun.call("lookup", "refund", prompt="May it?")
    begun.finish(calls[0])
    asked = begun.log[-1]
    assert (asked.kind, asked.tool_call_id, asked.prompt) == ("call_suspended", calls[1], "May it?")
    begun.resolve(Approve(), calls[1])
    assert begun.effect_ids == [f"{calls[1]}#1"]


def test_in_a_batch_nothing_runs_before_all_are_decided(executing):
    begun = executing(Execution.BATCH)
    calls = begun.call("lookup", "refund", "ask", "ship")
    assert status(begun, *calls) == [HELD, AWAITING, AWAITING, AWAITING]
    begun.resolve(Approve({"amount": 7}), calls[1])
    begun.resolve(Answer("blue"), calls[2])
    assert status(begun, *calls) == [HELD, HELD, RESOLVED, AWAITING]
    begun.resolve(Deny(), calls[3])
    assert status(begun, *calls) == [RUNNING, RUNNING, RESOLVED, ERRORED]
    [settled] = [event for event in begun.log if event.kind == "suspension_settled" and event.tool_call_id == calls[1]]
    assert begun.run(calls[1]).arguments_at == begun.run(calls[1]).decided_at == begun.log.index(settled) + 1


def test_in_a_batch_a_call_that_was_asked_about_before_its_run_and_is_held_then_has_a_run_of_its_own(executing):
    begun = executing(Execution.BATCH)
    calls = begun.call("lookup", "post")
    for call in calls:
        begun.do(RunRuled(effect_id=begun.run(call).effect_id, ruled=RuleVerdict(effect=RuleEffect.ASK)))
    begun.resolve(Approve(), calls[0])
    assert status(begun, *calls) == [HELD, AWAITING]
    begun.resolve(Deny(), calls[1])
    assert (begun.run(calls[0]).attempt, begun.run(calls[0]).resumed) == (2, 1)


def test_in_a_batch_what_expires_does_not_hold_the_others_back(executing):
    begun = executing(Execution.BATCH)
    calls = begun.call("lookup", "refund")
    begun.wake(at=begun.suspension(calls[1]).expires_at)
    assert status(begun, *calls) == [RUNNING, ERRORED]


def test_a_batch_in_which_nobody_is_asked_holds_nothing(executing):
    begun = executing(Execution.BATCH)
    calls = begun.call("lookup", "locate")
    assert status(begun, *calls) == [RUNNING, AWAITING]
    assert "call_held" not in begun.kinds()


def test_a_gated_client_call_of_a_batch_goes_to_the_client_when_all_are_decided(executing):
    begun = executing(Execution.BATCH)
    calls = begun.call("share", "refund")
    begun.resolve(Approve(), calls[0])
    assert status(begun, *calls) == [HELD, AWAITING]
    begun.resolve(Deny(), calls[1])
    begun.rule(calls[0], RuleEffect.ALLOW)
    assert begun.suspension(calls[0]).kind == "client_exec"


def test_cancelling_what_waits_lets_the_held_go_and_cancelling_the_turn_ends_them(executing):
    begun = executing(Execution.SEQUENTIAL)
    calls = begun.call("refund", "lookup")
    begun.cancel_pending()
    assert status(begun, *calls) == [ERRORED, RUNNING]

    begun = executing(Execution.SEQUENTIAL)
    calls = begun.call("refund", "lookup")
    assert begun.cancel().reply.calls == tuple(calls)
    assert begun.result(calls[1])["error"].startswith("cancelled before it was answered; it did not run")


def test_a_held_call_takes_no_decision(executing):
    begun = executing(Execution.SEQUENTIAL)
    calls = begun.call("lookup", "refund")
    with pytest.raises(StaleCall):
        begun.resolve(Approve(), calls[1])


@pytest.mark.parametrize("execution", list(Execution))
def test_a_snapshot_at_any_place_says_the_same_as_the_log(executing, execution):
    begun = executing(execution)
    calls = begun.call("refund", "lookup", "share", "ask")
    begun.resolve(Approve(), calls[0])
    state = State(conversation_id="c-1")
    for event in begun.log:
        state = codec.decode(State, codec.encode(evolve(state, event)))
    assert state == begun.state
    assert begun.status is (Status.EXECUTING_TOOLS if execution is Execution.SEQUENTIAL else Status.AWAITING_INPUT)


def test_prompts_of_held_calls_are_read_only_when_they_may_be_let_go(executing):
    begun = executing(Execution.BATCH)
    calls = begun.call("refund", "ship", "locate", prompt="May it?")
    held_at = begun.state.turn.call(calls[2]).held_at
    approve = resolve(Approve(), calls[0])
    assert approve(begun.state).reads(begun.state, begun.spec) == ()
    begun.resolve(Approve(), calls[0])
    assert resolve(Approve(), calls[1])(begun.state).reads(begun.state, begun.spec) == (held_at,)
    begun.resolve(Approve(), calls[1])
    begun.rule(calls[2], RuleEffect.ALLOW)
    [shown] = [event for event in begun.log if event.kind == "call_suspended" and event.tool_call_id == calls[2]]
    assert shown.prompt == "May it?"
