"""Deadlines: everything that waits ends, and an answer written before the expiry counts."""

import pytest

from holdfast.conversation import Answer, Limits, Status


@pytest.mark.parametrize(
    ("tool", "timeout_s"),
    [("refund", 300), ("share", 1000), ("ask", 200), ("age", 500), ("locate", 60)],
    ids=["approval of the tool", "approval of the agent", "answer of the tool", "answer of the agent", "client"],
)
def test_every_suspension_has_a_deadline(begun, tool, timeout_s):
    [call] = begun.call(tool)
    suspension = begun.suspension(call)
    assert suspension.created_at == begun.now
    assert suspension.expires_at == begun.now + timeout_s * 1000


def test_a_client_tool_may_have_its_own_deadline(conversations):
    conversation = conversations(spec=conversations.desk_with(locate={"answer_timeout_s": 7})).begun()
    [call] = conversation.call("locate")
    assert conversation.suspension(call).expires_at == conversation.now + 7000


def test_the_earliest_deadline_is_due_first(begun):
    calls = begun.call("ask", "locate", "refund", "lookup")
    assert begun.state.due_at == begun.suspension(calls[1]).look_at
    begun.resolve(Answer(1), calls[1])
    assert begun.state.due_at == begun.suspension(calls[0]).expires_at


def test_nothing_is_due_where_nothing_waits(begun):
    assert begun.state.due_at is None
    begun.call("lookup")
    assert begun.state.due_at is None


@pytest.mark.parametrize(
    ("tool", "error"),
    [
        ("refund", "nobody approved this call in time: it did not run (the user did not respond)"),
        ("ask", "the user did not respond in time"),
        ("locate", "the client did not respond in time"),
    ],
)
def test_a_call_that_nobody_answers_ends_with_an_error_and_the_turn_goes_on(begun, tool, error):
    [call] = begun.call(tool)
    begun.wake(at=begun.suspension(call).expires_at)
    assert begun.result(call) == {"ok": False, "error": error}
    assert begun.effect_ids == ["t1.m2"]
    assert "run_scheduled" not in begun.kinds()


def test_a_wake_before_the_deadline_settles_nothing(begun):
    [call] = begun.call("ask")
    with begun.unchanged():
        assert begun.wake(at=begun.suspension(call).expires_at - 1).ignored == "nothing is due"


def test_a_wake_settles_all_that_is_due_and_nothing_else(begun):
    ask, locate, refund, run = begun.call("ask", "locate", "refund", "lookup")
    begun.wake(at=begun.suspension(ask).expires_at)
    for call in (ask, locate):
        assert begun.result(call)["ok"] is False
    assert begun.suspension(refund) is not None
    assert begun.run(run).attempt == 1
    assert begun.status is Status.AWAITING_INPUT


def test_a_wake_again_changes_nothing(begun):
    ask, _refund = begun.call("ask", "refund")
    at = begun.suspension(ask).expires_at
    begun.wake(at=at)
    with begun.unchanged():
        assert begun.wake(at=at).ignored


def test_an_answer_before_the_expiry_is_swept_counts_even_after_the_deadline(begun):
    [call] = begun.call("ask")
    late = begun.suspension(call).expires_at + 10_000
    begun.resolve(Answer("blue"), call, at=late)
    with begun.unchanged():
        assert begun.wake(at=late + 1).ignored
    assert begun.result(call) == {"ok": True, "result": "blue"}


def test_a_deadline_ends_with_its_suspension(begun):
    [call] = begun.call("share")
    approval = begun.suspension(call)
    begun.approve(call)
    execution = begun.suspension(call)
    assert execution.expires_at < approval.expires_at
    begun.wake(at=execution.expires_at)
    assert begun.result(call) == {"ok": False, "error": "the client did not respond in time"}


def test_an_expiry_can_bring_the_turn_to_its_limit(conversations):
    conversation = conversations(spec=conversations.desk_with({"max_model_calls": 1})).begun()
    [call] = conversation.call("ask")
    conversation.wake(at=conversation.suspension(call).expires_at)
    assert conversation.status is Status.FAILED


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan")])
def test_a_bound_must_be_positive(timeout_s):
    with pytest.raises(ValueError, match=r"greater than 0|finite"):
        Limits(approval_timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("limits", "tools"),
    [
        ({"approval_timeout_s": float("inf")}, {"refund": {"approval_timeout_s": None}}),
        ({}, {"refund": {"approval_timeout_s": -5}}),
    ],
    ids=["infinite", "negative"],
)
def test_a_bound_that_never_or_already_ends_is_refused(conversations, limits, tools):
    with pytest.raises(ValueError, match="timeout_s"):
        conversations.desk_with(limits, **tools)
