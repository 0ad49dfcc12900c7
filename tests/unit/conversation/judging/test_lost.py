"""Runs that were lost and are asked about: nobody runs them again by itself, and nobody waits for ever."""

import pytest

from holdfast.conversation import (
    Answer,
    Approve,
    Deny,
    Fail,
    Redispatch,
    RunFinished,
    SettledBy,
    Status,
    SuspensionKind,
)
from holdfast.conversation.log.index import pending_entries
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.commands import RunLost
from holdfast.conversation.terms.decisions import DecisionKind, DecisionRecord
from holdfast.errors import InvalidDecision, StaleCall, StaleReason

LATE = '{"ok":true,"result":"late"}'


@pytest.fixture
def lost(begun):
    """A conversation whose only call ran without asking, and was lost."""
    [call] = begun.call("post")
    begun.lose(call)
    return begun


@pytest.fixture
def approved(begun):
    """A conversation whose only call was approved with edited arguments, ran, and was lost."""
    [call] = begun.call(("ship", '{"amount":99}'))
    begun.resolve(Approve(arguments={"amount": 10}), call)
    begun.lose(call)
    return begun


def the_call(conversation):
    [call] = conversation.state.calls
    return call


# It is asked.


def test_a_lost_run_waits_for_somebody_who_says_what_becomes_of_it(begun):
    # given a run of a tool that asks
    [call] = begun.call("post")
    assert begun.status is Status.EXECUTING_TOOLS
    # when its worker is gone
    before = len(begun.log)
    begun.lose(call)
    # then nothing runs and the model waits: the call awaits a person
    assert begun.kinds(before) == ["call_suspended"]
    assert begun.log[-1].suspension_kind is begun.suspension(call).kind is SuspensionKind.LOST
    assert begun.state.turn.call(call).status is CallStatus.AWAITING
    assert begun.status is Status.AWAITING_INPUT
    assert begun.effect_ids == []


def test_the_attempt_that_was_lost_stays_counted(lost):
    assert the_call(lost).attempt == 1


def test_the_prompt_says_what_happened_and_to_which_attempt(lost):
    assert lost.log[-1].prompt == "the worker was lost while this call ran (attempt 1): it may or may not have taken effect"
    assert lost.log[-1].response_schema is None


def test_the_arguments_shown_are_those_that_ran(begun):
    [call] = begun.call(("post", '{"amount":5}'))
    ran_with = begun.run(call).arguments_at
    begun.lose(call)
    assert begun.log[-1].arguments_at == the_call(begun).arguments_at == ran_with
    assert begun.log[ran_with - 1].calls[0].arguments == '{"amount":5}'


def test_edited_arguments_are_shown_where_they_ran(approved):
    suspended = approved.log[-1]
    assert (suspended.suspension_kind, suspended.approval) == ("lost", "required")
    assert approved.log[suspended.arguments_at - 1].body == '{"amount":10}'


@pytest.mark.parametrize(("tool", "timeout_s"), [("ship", 400), ("post", 1000)], ids=["of the tool", "of the agent"])
def test_there_is_as_much_time_as_for_an_approval(begun, tool, timeout_s):
    [call] = begun.call(tool)
    if tool == "ship":
        begun.resolve(Approve(), call)
    begun.lose(call)
    suspension = begun.suspension(call)
    assert suspension.created_at == begun.now
    assert suspension.expires_at == begun.state.due_at == begun.now + timeout_s * 1000


def test_the_index_lists_it_by_its_kind(lost):
    [entry] = pending_entries(lost.state)
    assert (entry.kind, entry.suspension_id) == (SuspensionKind.LOST, lost.log[-1].suspension_id)
    assert (entry.seq, entry.created_at) == (len(lost.log), lost.now)
    assert not lost.state.busy


def test_other_calls_go_on_meanwhile(begun):
    post, lookup, ask = begun.call("post", "lookup", "ask")
    begun.lose(post)
    begun.finish(lookup)
    begun.resolve(Answer("blue"), ask)
    assert begun.effect_ids == []
    begun.resolve(Answer("sent"), post)
    assert begun.effect_ids == ["t1.m2"]


def test_it_is_asked_also_where_the_spec_is_gone(begun):
    # given a run whose spec cannot be read when it is lost
    [call] = begun.call("post")
    begun.spec = None
    # when it is lost, then the call itself says that it asks, and the bounds are the usual ones
    begun.lose(call)
    assert begun.suspension(call).kind is SuspensionKind.LOST
    assert begun.suspension(call).expires_at == begun.now + 7 * 86400 * 1000


# Again.


@pytest.mark.parametrize("conversation", ["lost", "approved"])
def test_a_redispatch_runs_it_again_under_the_same_idempotency_key(conversation, request):
    # given a lost run
    conversation = request.getfixturevalue(conversation)
    call = the_call(conversation)
    before = len(conversation.log)
    # when somebody says: again
    shown = call.suspension.suspension_id
    receipt = conversation.resolve(Redispatch(), call.tool_call_id, suspension_id=shown, decision_id="d-again").reply
    # then it runs with the next attempt, and everything else as before
    settled, scheduled = conversation.log[before:]
    assert (settled.by, settled.decision, settled.body) == (SettledBy.REDISPATCH, DecisionKind.REDISPATCH, None)
    assert receipt.seq == before + 1
    assert (scheduled.kind, scheduled.tool_call_id, scheduled.attempt) == ("run_scheduled", call.tool_call_id, 2)
    run = conversation.run(call.tool_call_id)
    assert (run.tool_call_id, run.attempt, run.arguments_at) == (call.tool_call_id, 2, call.arguments_at)
    assert (scheduled.approval, scheduled.on_lost) == (call.approval, "ask")
    assert conversation.status is Status.EXECUTING_TOOLS
    # and its outcome is the call's result
    conversation.finish(call.tool_call_id, '{"ok":true,"result":"at last"}')
    assert conversation.result(call.tool_call_id) == {"ok": True, "result": "at last"}
    assert conversation.effect_ids == ["t1.m2"]


def test_a_run_that_is_lost_again_is_asked_about_again(lost):
    # given a run that was lost and dispatched again
    call = the_call(lost).tool_call_id
    first = lost.suspension(call).suspension_id
    lost.resolve(Redispatch(), call, suspension_id=first)
    # when it is lost again
    lost.lose(call)
    # then that is another suspension, and it says which attempt it is about
    second = lost.suspension(call)
    assert second.kind is SuspensionKind.LOST
    assert second.suspension_id != first
    assert the_call(lost).attempt == 2
    assert "(attempt 2)" in lost.log[-1].prompt
    # and there is no end to it but the person's
    for attempt in range(3, 13):
        lost.resolve(Redispatch(), call, suspension_id=lost.suspension(call).suspension_id)
        assert lost.run(call).attempt == attempt
        lost.lose(call)
    lost.resolve(Fail("enough"), call, suspension_id=lost.suspension(call).suspension_id)
    assert lost.result(call) == {"ok": False, "error": "enough"}


def test_a_decision_about_the_first_loss_says_nothing_about_the_second(lost):
    call = the_call(lost).tool_call_id
    first = lost.suspension(call).suspension_id
    lost.resolve(Redispatch(), call, suspension_id=first)
    lost.lose(call)
    for decision in (Redispatch(), Answer("sent"), Fail("no")):
        with lost.unchanged(), pytest.raises(StaleCall) as refusal:
            lost.resolve(decision, call, suspension_id=first)
        assert (refusal.value.reason, refusal.value.settled_by) == (StaleReason.SUPERSEDED, "redispatch")


def test_a_second_redispatch_is_stale_while_the_first_one_runs(lost):
    call = the_call(lost).tool_call_id
    shown = lost.suspension(call).suspension_id
    first = lost.resolve(Redispatch(), call, suspension_id=shown).reply
    with lost.unchanged(), pytest.raises(StaleCall) as refusal:
        lost.resolve(Redispatch(), call, suspension_id=shown)
    stale = refusal.value
    expected = (StaleReason.ALREADY_RESOLVED, "redispatch", first.accepted_at)
    assert (stale.reason, stale.settled_by, stale.settled_at) == expected
    assert lost.run(call).attempt == 2


def test_the_same_redispatch_again_gets_the_first_receipt_and_runs_nothing(lost):
    # given a redispatch that was accepted
    call = the_call(lost).tool_call_id
    shown = lost.suspension(call).suspension_id
    first = lost.resolve(Redispatch(), call, suspension_id=shown, decision_id="d-again").reply
    # when it comes again, while it runs, while it is lost again, and after the turn
    with lost.unchanged():
        replies = [lost.resolve(Redispatch(), call, suspension_id=shown, decision_id="d-again").reply]
    lost.lose(call)
    with lost.unchanged():
        replies.append(lost.resolve(Redispatch(), call, suspension_id=shown, decision_id="d-again").reply)
    lost.resolve(Answer(1), call, suspension_id=lost.suspension(call).suspension_id)
    lost.reply()
    with lost.unchanged():
        replies.append(lost.resolve(Redispatch(), call, suspension_id=shown, decision_id="d-again").reply)
    # then it is the first receipt, marked
    assert replies == [first.model_copy(update={"duplicate": True})] * 3


def test_the_id_of_a_redispatch_is_not_good_for_another_decision(lost):
    call = the_call(lost).tool_call_id
    shown = lost.suspension(call).suspension_id
    lost.resolve(Redispatch(), call, suspension_id=shown, decision_id="d-1")
    with lost.unchanged(), pytest.raises(InvalidDecision) as refusal:
        lost.resolve(Fail("no"), call, suspension_id=shown, decision_id="d-1")
    assert refusal.value.field == "decision_id"


# What came of it.


@pytest.mark.parametrize("conversation", ["lost", "approved"])
@pytest.mark.parametrize("value", [False, 0, "", None, [], {}, 0.0, {"tracking": "1Z"}, {"ok": False}], ids=repr)
def test_an_answer_is_the_result_that_the_run_would_have_had(conversation, value, request):
    conversation = request.getfixturevalue(conversation)
    call = the_call(conversation)
    conversation.resolve(Answer(value), call.tool_call_id, suspension_id=call.suspension.suspension_id)
    result = conversation.result(call.tool_call_id)
    marks = {"edited_arguments": True} if request.node.callspec.params["conversation"] == "approved" else {}
    assert result == {"ok": True, "result": value} | marks  # and none of a client: a person of ours said it
    assert type(result["result"]) is type(value)
    resolved = conversation.log[-1]
    assert (resolved.by, resolved.ok, resolved.untrusted) == (SettledBy.ANSWER, True, False)
    assert conversation.effect_ids == ["t1.m2"]


def test_a_failure_is_an_error_that_the_model_reads(lost):
    call = the_call(lost).tool_call_id
    lost.resolve(Fail("the carrier knows no such parcel"), call)
    assert lost.result(call) == {"ok": False, "error": "the carrier knows no such parcel"}
    resolved = lost.log[-1]
    assert (resolved.by, resolved.ok, resolved.untrusted) == (SettledBy.FAIL, False, False)
    assert lost.effect_ids == ["t1.m2"]


def test_a_failure_without_words_is_still_one(lost):
    call = the_call(lost).tool_call_id
    lost.resolve(Fail(""), call)
    assert lost.result(call) == {"ok": False, "error": "it failed, and nobody said why"}


def test_an_answer_may_be_as_long_as_a_result_and_a_failure_as_a_note(lost):
    call = the_call(lost).tool_call_id
    with lost.unchanged():
        for decision, limit in ((Answer("x" * 300), "result_bytes"), (Fail("x" * 80), "note_bytes")):
            with pytest.raises(InvalidDecision) as refusal:
                lost.resolve(decision, call)
            assert limit in refusal.value.fix
    lost.resolve(Answer("x" * 298), call)


@pytest.mark.parametrize("decision", [Approve(), Approve(arguments={"amount": 1}), Deny(), Deny("no")])
def test_an_approval_or_a_denial_does_not_settle_a_lost_run(approved, decision):
    call = the_call(approved)
    with approved.unchanged(), pytest.raises(InvalidDecision) as refusal:
        approved.resolve(decision, call.tool_call_id, suspension_id=call.suspension.suspension_id)
    assert refusal.value.field == "decision"
    assert refusal.value.fix == "decide redispatch or answer or fail or cancel"


def test_a_redispatch_does_not_settle_what_was_not_lost(begun):
    for tool in ("refund", "ship", "ask", "age", "locate", "share"):
        begun.call(tool)
        [call] = begun.state.calls
        with begun.unchanged(), pytest.raises(InvalidDecision) as refusal:
            begun.resolve(Redispatch(), call.tool_call_id)
        assert refusal.value.field == "decision"
        begun.cancel()
        begun.send()
        begun.begin()


@pytest.mark.parametrize("tool", ["lookup", "charge", "post"])
def test_a_redispatch_of_what_runs_is_stale(begun, tool):
    [call] = begun.call(tool)
    with begun.unchanged(), pytest.raises(StaleCall) as refusal:
        begun.resolve(Redispatch(), call)
    assert refusal.value.reason is StaleReason.UNKNOWN


@pytest.mark.parametrize("body", ["null", "{}", '{"amount":1}', '""'])
def test_a_redispatch_takes_no_arguments(body):
    with pytest.raises(ValueError, match="redispatch takes no body"):
        DecisionRecord(kind=DecisionKind.REDISPATCH, body=body)


# Bound to what was shown.


@pytest.mark.parametrize("decision", [Approve(), Deny("no"), Redispatch(), Answer(1)])
def test_a_decision_meant_for_the_approval_is_superseded_by_the_loss(begun, decision):
    # given a call that was approved, and lost
    [call] = begun.call("ship")
    approval = begun.suspension(call).suspension_id
    first = begun.resolve(Approve(), call, suspension_id=approval).reply
    begun.lose(call)
    # when a decision names the approval, then it does not reach the lost run
    with begun.unchanged(), pytest.raises(StaleCall) as refusal:
        begun.resolve(decision, call, suspension_id=approval)
    stale = refusal.value
    assert (stale.reason, stale.settled_by, stale.settled_at) == (StaleReason.SUPERSEDED, "approve", first.accepted_at)


def test_a_decision_that_names_no_suspension_is_refused_where_there_was_an_approval(approved):
    call = the_call(approved).tool_call_id
    for decision in (Redispatch(), Answer(1), Fail("no"), Approve()):
        with approved.unchanged(), pytest.raises(InvalidDecision) as refusal:
            approved.resolve(decision, call)
        assert refusal.value.field == "suspension_id"


def test_a_decision_that_names_no_suspension_is_refused_at_the_second_loss(lost):
    call = the_call(lost).tool_call_id
    lost.resolve(Redispatch(), call)  # only one has been yet
    lost.lose(call)
    with lost.unchanged(), pytest.raises(InvalidDecision) as refusal:
        lost.resolve(Redispatch(), call)
    assert refusal.value.field == "suspension_id"


# Late.


@pytest.mark.parametrize("outcome", [RunFinished(effect_id="?", ok=True, content=LATE), RunLost(effect_id="?")])
@pytest.mark.parametrize("moment", ["asked", "again", "answered"])
def test_an_outcome_of_the_lost_attempt_changes_nothing(begun, outcome, moment):
    # given a lost run, about which somebody is asked, or has said what becomes of it
    [call] = begun.call("post")
    attempt = begun.run(call).effect_id
    begun.lose(call)
    if moment != "asked":
        begun.resolve(Redispatch() if moment == "again" else Answer("sent"), call)
    # when the lost attempt is heard of after all
    with begun.unchanged():
        ignored = begun.do(outcome.model_copy(update={"effect_id": attempt})).ignored
    # then it is late
    assert ignored


# Nobody says.


def test_a_lost_run_that_nobody_speaks_for_ends_with_an_unknown_outcome(lost):
    call = the_call(lost).tool_call_id
    shown = lost.suspension(call)
    with lost.unchanged():
        assert lost.wake(at=shown.expires_at - 1).ignored
    lost.wake(at=shown.expires_at)
    result = lost.result(call)
    assert result["ok"] is False
    assert "outcome unknown" in result["error"]
    assert "did not run" not in result["error"]
    assert lost.log[-1].by is SettledBy.EXPIRY
    assert lost.effect_ids == ["t1.m2"]


@pytest.mark.parametrize("named", [True, False], ids=["suspension named", "suspension left out"])
def test_a_redispatch_after_the_deadline_was_swept_is_stale(lost, named):
    call = the_call(lost).tool_call_id
    shown = lost.suspension(call)
    lost.wake(at=shown.expires_at)
    with lost.unchanged(), pytest.raises(StaleCall) as refusal:
        lost.resolve(Redispatch(), call, suspension_id=shown.suspension_id if named else None)
    assert (refusal.value.reason, refusal.value.settled_at) == (StaleReason.EXPIRED, shown.expires_at)


@pytest.mark.parametrize("how", ["cancel", "end"])
def test_a_lost_run_that_is_cancelled_is_not_said_to_have_not_run(lost, how):
    # given a lost run beside which nothing happens
    call = the_call(lost).tool_call_id
    shown = lost.suspension(call).suspension_id
    before = len(lost.log)
    # when the turn is cancelled, or the conversation ended
    cancelled = getattr(lost, how)().reply
    # then its suspension is settled, and the model does not read what nobody knows
    assert lost.kinds(before)[:3] == ["suspension_settled", "call_resolved", "turn_cancelled"]
    assert lost.log[before].suspension_id == shown
    result = lost.result(call)
    assert result["ok"] is False
    assert "may or may not have taken effect" in result["error"]
    if how == "cancel":
        assert cancelled.calls == (call,)
        with lost.unchanged(), pytest.raises(StaleCall) as refusal:
            lost.resolve(Redispatch(), call, suspension_id=shown)
        assert refusal.value.reason is StaleReason.CANCELLED


def test_an_unanswered_loss_can_bring_the_turn_to_its_limit(conversations):
    conversation = conversations(spec=conversations.desk_with({"max_model_calls": 1})).begun()
    [call] = conversation.call("post")
    conversation.lose(call)
    assert conversation.status is Status.AWAITING_INPUT
    conversation.resolve(Redispatch(), call)
    conversation.lose(call)
    conversation.wake(at=conversation.suspension(call).expires_at)
    assert conversation.status is Status.FAILED
