"""A turn that reaches a bound asks a person first whether it may go on."""

import json

import pytest

from holdfast.conversation import (
    AgentSpec,
    Answer,
    Approve,
    ApproverTerms,
    CallModel,
    Cancel,
    Deny,
    EscalateCall,
    Execution,
    Limits,
    Principal,
    Redispatch,
    Scope,
    State,
    Status,
    Stop,
    StopReason,
    SuspensionKind,
    ToolSpec,
    WaitsFor,
    When,
    outstanding,
)
from holdfast.conversation.log.chain import ChainCheck
from holdfast.conversation.log.index import pending_entries
from holdfast.conversation.records.calls import CallStatus
from holdfast.conversation.records.event_base import Reached
from holdfast.conversation.records.events import CallSuspended, SettledBy, TurnCompleted
from holdfast.conversation.terms.spec import UnattendedApprovals, UnattendedSpec
from holdfast.errors import InvalidDecision, StaleCall, StaleReason
from holdfast.persistence import codec
from holdfast.persistence.views import arguments_in

TOOLS = (
    ToolSpec(name="lookup"),
    ToolSpec(name="ask", executor="human"),
    ToolSpec(name="refund", approval="required", prompt="Really?"),
    ToolSpec(name="submit"),
    ToolSpec(name="post", on_lost="ask"),
)


def desk(limits=None, execution=Execution.PARALLEL, unattended=None, **bounds):
    limits = limits or Limits(approval_timeout_s=1000)
    return AgentSpec(
        name="desk",
        model="m",
        tools=TOOLS,
        limits=limits,
        execution=execution,
        unattended=unattended or UnattendedSpec(),
        stop=Stop(then="ask", **bounds),
    )


@pytest.fixture
def begins(conversations):
    """A conversation at the first model call of an agent that asks at these bounds."""

    def begun(**said):
        return conversations(spec=desk(**said)).begun()

    return begun


def question(conversation):
    """The call that asks, and its suspension."""
    call = conversation.state.turn.question
    assert call is not None
    return call


def shown(conversation):
    """What the open question shows as its arguments."""
    call = question(conversation)
    source = conversation.log[call.arguments_at - 1]
    assert isinstance(source, CallSuspended)
    return arguments_in(source, call.tool_call_id)


def decided(conversation, decision, **more):
    return conversation.resolve(decision, question(conversation).tool_call_id, **more)


def end(conversation):
    [ended] = [event for event in conversation.log if event.kind in ("turn_completed", "turn_failed", "turn_cancelled")]
    return ended


def after_rounds(begins, count=1, **said):
    """A conversation that asks, as its model wants calls after so many rounds of them."""
    conversation = begins(rounds=count, **said)
    for _ in range(count):
        conversation.finish(*conversation.call("lookup"))
    return conversation, conversation.call("lookup", "refund", content="and now")


def test_the_question_is_a_pending_call_of_an_id_of_its_own_that_shows_the_bound(begins):
    conversation, _ = after_rounds(begins)
    call = question(conversation)
    assert (call.tool_call_id, call.tool, call.suspension.kind) == ("t1.rounds.1", "holdfast.limit", SuspensionKind.LIMIT)
    assert shown(conversation) == {
        "bound": "Stop(rounds=1)",
        "used": {"model_calls": 2, "rounds": 2, "tokens": 0},
        "extends_by": {"rounds": 1},
    }
    asked = conversation.log[call.suspension.seq - 1]
    assert asked.prompt == "The turn has reached Stop(rounds=1). May it go on for as much again?"
    assert (asked.batch_id, asked.message_at) == ("", conversation.state.turn.message_seq)
    assert asked.expires_at == conversation.now + 1000 * 1000
    [entry] = pending_entries(conversation.state)
    assert (entry.kind, entry.suspension_id) == (SuspensionKind.LIMIT, call.suspension.suspension_id)


def test_while_it_waits_nothing_goes_on_and_the_calls_of_the_last_answer_are_held(begins):
    conversation, calls = after_rounds(begins)
    assert (conversation.status, conversation.state.waits_for) == (Status.AWAITING_INPUT, WaitsFor.PEOPLE)
    assert [conversation.state.turn.call(call).status for call in calls] == [CallStatus.HELD] * 2
    assert conversation.effect_ids == []
    with conversation.unchanged():
        assert conversation.wake().ignored


def test_an_approval_lets_the_held_calls_begin_as_they_would_have(begins):
    conversation, (look, refund) = after_rounds(begins)
    decided(conversation, Approve())
    assert conversation.effect_ids == [f"{look}#1"]
    assert conversation.suspension(refund).kind is SuspensionKind.APPROVAL
    assert conversation.state.turn.asking is None


def test_the_model_is_told_nothing_of_the_question(begins):
    conversation, (look, refund) = after_rounds(begins)
    decided(conversation, Approve())
    conversation.finish(look)
    conversation.resolve(Deny(), refund)
    assert [effect.stopped for effect in outstanding(conversation.state) if isinstance(effect, CallModel)] == [""]
    assert "limit" not in repr(conversation.messages())
    assert "t1.rounds" not in repr(conversation.messages())
    assert [message["role"] for message in conversation.messages()] == [
        "user",
        *("assistant", "tool"),
        "assistant",
        "tool",
        "tool",
    ]


def test_a_denial_ends_the_turn_and_each_held_call_gets_an_error_result(begins):
    conversation, calls = after_rounds(begins)
    decided(conversation, Deny("enough"))
    ended = end(conversation)
    assert isinstance(ended, TurnCompleted)
    assert (ended.stopped, ended.detail) == (StopReason.ROUNDS, "Stop(rounds=1)")
    assert conversation.log[ended.reply_seq - 1].content == "and now"
    for call in calls:
        said = {"ok": False, "error": "the turn was stopped (Stop(rounds=1)): this call did not run"}
        assert conversation.result(call) == said
    assert (conversation.status, conversation.effect_ids, conversation.state.due_at) == (Status.IDLE, [], None)


@pytest.mark.parametrize("how", ["cancel_pending", "expiry"])
def test_a_question_that_is_dropped_or_expires_ends_the_turn(begins, how):
    conversation, calls = after_rounds(begins)
    asked = question(conversation)
    match how:
        case "cancel_pending":
            assert conversation.cancel_pending().reply.calls == (asked.tool_call_id,)
        case "expiry":
            conversation.wake(at=asked.suspension.expires_at)
    assert (end(conversation).stopped, end(conversation).detail) == (StopReason.ROUNDS, "Stop(rounds=1)")
    assert [conversation.result(call)["ok"] for call in calls] == [False, False]
    assert conversation.kinds().count("call_resolved") == 3


def test_nobody_asks_twice_of_a_question_that_is_over(begins):
    conversation, _ = after_rounds(begins)
    asked = question(conversation).tool_call_id
    decided(conversation, Approve())
    with conversation.unchanged(), pytest.raises(StaleCall) as stale:
        conversation.resolve(Deny(), asked)
    assert stale.value.reason is StaleReason.ALREADY_RESOLVED


@pytest.mark.parametrize("how", ["cancel", "end", "interrupt"])
def test_what_ends_the_turn_ends_the_question(begins, how):
    conversation, calls = after_rounds(begins)
    asked = question(conversation).suspension.suspension_id
    conversation.interrupt(None) if how == "interrupt" else getattr(conversation, how)()
    [settled] = [event for event in conversation.log if event.kind == "suspension_settled"]
    assert (settled.suspension_id, settled.by) == (asked, SettledBy.CANCELLATION)
    assert conversation.result(calls[0])["error"].startswith("cancelled before it was answered; it did not run")
    assert "turn_completed" not in conversation.kinds()
    assert (conversation.effect_ids, pending_entries(conversation.state)) == ([], ())


def test_rounds_count_anew_from_the_approval_and_the_next_question_is_another_one(begins):
    conversation, calls = after_rounds(begins, 2)
    first = question(conversation).suspension.suspension_id
    decided(conversation, Approve())
    conversation.finish(calls[0])
    conversation.resolve(Deny(), calls[1])
    conversation.finish(*conversation.call("lookup"))
    conversation.call("lookup")
    assert question(conversation).tool_call_id == "t1.rounds.2"
    assert question(conversation).suspension.suspension_id != first
    assert shown(conversation)["used"]["rounds"] == 5


def test_tokens_count_anew_from_the_approval_however_many_were_used_at_once(begins):
    conversation = begins(tokens=100)
    [look] = conversation.call("lookup", input_tokens=990, output_tokens=10)
    assert shown(conversation)["bound"] == "Stop(tokens=100): 1000 so far"
    decided(conversation, Approve())
    conversation.finish(look)
    [look] = conversation.call("lookup", input_tokens=99, output_tokens=0)
    conversation.finish(look)
    conversation.call("lookup", input_tokens=1, output_tokens=0)
    assert shown(conversation)["used"]["tokens"] == 1100


def test_cost_counts_anew_from_the_approval_and_is_shown_where_it_is_bounded(begins):
    conversation = begins(cost_usd=0.5)
    [look] = conversation.call("lookup", cost_usd=0.6)
    assert shown(conversation) == {
        "bound": "Stop(cost_usd=0.5): 0.6 so far",
        "used": {"model_calls": 1, "rounds": 1, "tokens": 0, "cost_usd": 0.6},
        "extends_by": {"cost_usd": 0.5},
    }
    decided(conversation, Approve())
    conversation.finish(look)
    conversation.finish(*conversation.call("lookup", cost_usd=0.49))
    conversation.call("lookup", cost_usd=0.01)
    assert question(conversation).tool_call_id == "t1.cost.2"


@pytest.mark.parametrize("reason", [StopReason.CONTENT, StopReason.WHEN])
def test_what_a_worker_has_found_is_asked_about_first_and_judged_anew_with_the_next_answer(begins, reason):
    conversation = begins(tokens=10, content="x")
    found = Reached(reason=reason, detail="as it says")
    [look] = conversation.call("lookup", input_tokens=20, reached=found)
    assert (shown(conversation)["bound"], shown(conversation)["extends_by"]) == ("as it says", {})
    decided(conversation, Approve())
    assert shown(conversation)["bound"] == "Stop(tokens=10): 20 so far"
    decided(conversation, Approve())
    conversation.finish(look)
    [look] = conversation.call("lookup")
    assert conversation.effect_ids == [f"{look}#1"]
    conversation.finish(look)
    conversation.call("lookup", reached=found)
    decided(conversation, Deny())
    assert (end(conversation).stopped, end(conversation).detail) == (reason, "as it says")


def test_a_repeated_call_asks_at_each_repetition(begins):
    conversation = begins(loop=3)
    conversation.finish(*conversation.call("lookup"))
    again = conversation.call("lookup")
    assert shown(conversation)["extends_by"] == {"loop": 3}
    decided(conversation, Approve())
    conversation.finish(*again)
    conversation.call("lookup")
    assert question(conversation).tool_call_id == "t1.loop.2"


@pytest.mark.parametrize(("bounds", "ok"), [({"errors": 1}, False), ({"tool": "lookup"}, True)], ids=str)
def test_a_bound_that_results_reach_is_asked_about_before_the_next_model_call(begins, bounds, ok):
    conversation = begins(**bounds)
    [look] = conversation.call("lookup")
    conversation.finish(look, ok=ok, content=json.dumps({"ok": ok, "result" if ok else "error": "x"}))
    assert shown(conversation)["extends_by"] == bounds
    assert conversation.effect_ids == []
    decided(conversation, Approve())
    assert conversation.effect_ids == ["t1.m2"]
    [look] = conversation.call("lookup")
    conversation.finish(look, ok=ok, content=json.dumps({"ok": ok, "result" if ok else "error": "x"}))
    assert question(conversation).tool_call_id == f"t1.{next(iter(bounds))}.2"


def test_the_denial_of_the_question_is_no_failed_result(begins):
    conversation = begins(errors=2, rounds=1)
    conversation.finish(*conversation.call("lookup"))
    conversation.call("lookup")
    before = conversation.state.turn.errors
    decided(conversation, Approve())
    assert conversation.state.turn.errors == before == 0


def test_another_bound_of_the_same_answer_is_a_question_of_its_own(begins):
    conversation = begins(rounds=1, tokens=50)
    conversation.finish(*conversation.call("lookup"))
    [look] = conversation.call("lookup", input_tokens=60)
    decided(conversation, Approve())
    assert shown(conversation)["bound"] == "Stop(tokens=50): 60 so far"
    assert conversation.state.turn.call(look).status is CallStatus.HELD
    decided(conversation, Approve())
    assert conversation.effect_ids == [f"{look}#1"]


def test_an_answer_without_calls_completes_the_turn_unasked(begins):
    conversation = begins(tokens=10)
    conversation.reply("done", input_tokens=100)
    assert (end(conversation).stopped, pending_entries(conversation.state)) == (None, ())


def test_unusable_calls_have_their_error_result_before_the_question(begins):
    conversation = begins(tokens=10)
    [nonsense, look] = conversation.call("nonsense", "lookup", input_tokens=100)
    assert conversation.result(nonsense)["error"] == "there is no tool named nonsense"
    decided(conversation, Approve())
    assert conversation.effect_ids == [f"{look}#1"]


def test_an_answer_whose_calls_are_all_unusable_asks_all_the_same(begins):
    conversation = begins(tokens=10)
    conversation.call("nonsense", input_tokens=100)
    assert conversation.effect_ids == []
    decided(conversation, Approve())
    assert conversation.effect_ids == ["t1.m2"]


def test_an_answer_that_is_cut_off_asks_before_the_turn_goes_on(begins):
    conversation = begins(tokens=10)
    [cut] = conversation.call("lookup", input_tokens=100, finish_reason="length")
    assert "Take smaller steps" in conversation.result(cut)["error"]
    assert conversation.effect_ids == []
    decided(conversation, Approve())
    assert conversation.effect_ids == ["t1.m2"]


def test_a_turn_whose_model_calls_are_used_up_stops_unasked(begins):
    conversation = begins(limits=Limits(max_model_calls=1), tokens=10)
    conversation.call("lookup", input_tokens=100)
    assert end(conversation).stopped is StopReason.TOKENS
    assert "call_suspended" not in conversation.kinds()


@pytest.mark.parametrize(
    ("decision", "field"),
    [
        (Approve(arguments={"rounds": 100}), "decision.arguments"),
        (Approve(scope=Scope("tool", "lookup", level="admin")), "decision.scope"),
        (Answer(1), "decision"),
        (Cancel(), "decision"),
    ],
    ids=["edited", "scope", "answer", "cancel"],
)
def test_a_decision_that_no_question_takes_is_refused_and_changes_nothing(begins, decision, field):
    conversation, _ = after_rounds(begins)
    with conversation.unchanged(), pytest.raises(InvalidDecision) as refused:
        decided(conversation, decision)
    assert refused.value.field == field


def test_several_calls_are_decided_at_once_with_the_question_among_them(begins):
    conversation = begins(timeout_s=60, waits=True)
    [refund] = conversation.call("refund")
    conversation.wake(at=conversation.state.due_at)
    named = {refund: Approve(), question(conversation).tool_call_id: Approve()}
    conversation.resolve_many(named)
    assert conversation.effect_ids == [f"{refund}#1"]


def test_a_message_that_joins_waits_until_the_turn_goes_on(begins):
    conversation = begins(errors=1)
    conversation.finish(*conversation.call("lookup"), ok=False, content='{"ok":false,"error":"no"}')
    conversation.send("and this", message_id="m-2", when=When.STEER)
    assert conversation.effect_ids == []
    decided(conversation, Approve())
    assert conversation.kinds()[-1] == "input_joined"
    assert conversation.messages()[-1] == {"role": "user", "content": "and this"}


def test_a_message_that_was_to_join_a_turn_that_may_not_go_on_waits_for_its_own(begins):
    conversation, _ = after_rounds(begins)
    conversation.send("and this", message_id="m-2", when=When.STEER)
    decided(conversation, Deny())
    assert conversation.effect_ids == [f"begin:{conversation.state.queue[0].seq}"]
    conversation.begin()
    turn = conversation.state.turn
    assert (turn.turn_id, turn.asking, turn.questions, turn.rounds_from) == ("t2", None, 0, 0)


def test_calls_of_a_batch_begin_only_once_all_of_them_are_decided(begins):
    conversation, (look, refund) = after_rounds(begins, execution=Execution.BATCH)
    decided(conversation, Approve())
    assert conversation.effect_ids == []
    assert conversation.suspension(refund).kind is SuspensionKind.APPROVAL
    conversation.resolve(Approve(), refund)
    assert conversation.effect_ids == [f"{look}#1", f"{refund}#1"]


def test_calls_one_after_the_other_begin_in_their_order(begins):
    conversation, (look, refund) = after_rounds(begins, execution=Execution.SEQUENTIAL)
    decided(conversation, Approve())
    assert conversation.effect_ids == [f"{look}#1"]
    assert conversation.state.turn.call(refund).status is CallStatus.HELD


def test_a_held_call_asks_with_its_own_prompt(begins):
    conversation = begins(tokens=10)
    conversation.call("refund", input_tokens=100, prompt="Refund 5 euros?")
    decided(conversation, Approve())
    assert conversation.log[-1].prompt == "Refund 5 euros?"


# Time.


def test_a_turn_whose_time_is_over_asks_while_its_runs_go_on(begins):
    conversation = begins(timeout_s=60)
    [look] = conversation.call("lookup")
    conversation.wake(at=conversation.state.due_at)
    assert shown(conversation)["extends_by"] == {"timeout_s": 60.0}
    assert (conversation.status, conversation.effect_ids) == (Status.AWAITING_INPUT, [f"{look}#1"])
    conversation.finish(look)
    assert (conversation.status, conversation.effect_ids) == (Status.AWAITING_INPUT, [])
    decided(conversation, Approve())
    assert conversation.effect_ids == ["t1.m2"]


def test_time_stands_still_while_it_asks_and_begins_anew_with_the_approval(begins):
    conversation = begins(timeout_s=60)
    conversation.call("lookup")
    conversation.wake(at=conversation.state.due_at)
    assert conversation.state.due_at == question(conversation).suspension.expires_at
    decided(conversation, Approve(), at=conversation.now + 500_000)
    assert conversation.state.due_at == conversation.now + 60_000


def test_what_goes_on_as_the_turn_may_not_ends_with_it(begins):
    conversation = begins(timeout_s=60)
    [look] = conversation.call("lookup")
    conversation.wake(at=conversation.state.due_at)
    decided(conversation, Deny())
    stopped = "the turn was stopped (Stop(timeout_s=60))"
    assert conversation.result(look)["error"] == f"cancelled while it ran; it may or may not have taken effect: {stopped}"
    assert (end(conversation).stopped, conversation.effect_ids) == (StopReason.TIMEOUT, [])


def test_a_model_call_ends_before_a_turn_whose_time_is_over_asks(begins):
    conversation = begins(timeout_s=60)
    assert conversation.state.due_at is None
    over = conversation.now + 70_000
    with conversation.unchanged():
        assert conversation.wake(at=over).ignored
    assert conversation.effect_ids == ["t1.m1"]
    [look] = conversation.call("lookup")
    assert (shown(conversation)["bound"], conversation.state.turn.call(look).status) == ("Stop(timeout_s=60)", CallStatus.HELD)
    decided(conversation, Approve())
    assert conversation.effect_ids == [f"{look}#1"]


@pytest.mark.parametrize("waits", [False, True])
def test_time_stands_still_during_a_question_about_another_bound(begins, waits):
    conversation = begins(timeout_s=60, waits=waits, tokens=10)
    ends_at = conversation.state.turn.ends_at
    [look] = conversation.call("lookup", input_tokens=20)
    asked_at = conversation.now
    decided(conversation, Approve(), at=asked_at + 300_000)
    assert conversation.effect_ids == [f"{look}#1"]
    assert conversation.state.turn.ends_at == ends_at + 300_000


def test_a_call_that_is_to_run_again_is_held_while_its_turn_asks(begins):
    conversation = begins(timeout_s=60, waits=True)
    [post] = conversation.call("post")
    conversation.lose(post)
    conversation.wake(at=conversation.state.due_at)
    conversation.resolve(Redispatch(), post)
    assert (conversation.state.turn.call(post).status, conversation.effect_ids) == (CallStatus.HELD, [])
    decided(conversation, Approve())
    assert conversation.effect_ids == [f"{post}#2"]


def test_an_approved_call_is_held_while_its_turn_asks(begins):
    conversation = begins(timeout_s=60, waits=True)
    [refund] = conversation.call("refund")
    conversation.wake(at=conversation.state.due_at)
    conversation.resolve(Approve(), refund)
    assert (conversation.state.turn.call(refund).status, conversation.effect_ids) == (CallStatus.HELD, [])
    decided(conversation, Approve())
    assert conversation.effect_ids == [f"{refund}#1"]


# People.


def test_others_decide_after_an_escalation(begins):
    conversation, calls = after_rounds(begins)
    asked, ana = question(conversation), Principal("ana")
    terms = ApproverTerms(who=(("id:bo",),), stated=True)
    conversation.do(
        EscalateCall(
            tool_call_id=asked.tool_call_id,
            suspension_id=asked.suspension.suspension_id,
            approvers=terms,
            request_id="e-1",
            principal=ana,
        )
    )
    decided(conversation, Approve(), principal=Principal("bo"))
    assert conversation.effect_ids == [f"{calls[0]}#1"]


def test_an_unattended_conversation_that_denies_what_asks_stops(begins, conversations):
    spec = desk(rounds=1, unattended=UnattendedSpec(approvals=UnattendedApprovals.DENY))
    conversation = conversations(spec=spec)
    conversation.start("hello", attended=False)
    conversation.begin()
    conversation.finish(*conversation.call("lookup"))
    [look] = conversation.call("lookup")
    assert end(conversation).stopped is StopReason.ROUNDS
    assert [event.by for event in conversation.log if event.kind == "suspension_settled"] == [SettledBy.UNATTENDED]
    assert conversation.result(look)["error"].endswith("this call did not run")


def test_an_unattended_conversation_that_asks_waits_for_somebody(begins, conversations):
    conversation = conversations(spec=desk(rounds=1))
    conversation.start("hello", attended=False)
    conversation.begin()
    conversation.finish(*conversation.call("lookup"))
    conversation.call("lookup")
    assert question(conversation).suspension.kind is SuspensionKind.LIMIT


# Records.


def test_the_audit_chain_says_who_let_the_turn_go_on_and_of_which_question(begins):
    conversation, _ = after_rounds(begins)
    decided(conversation, Approve(reason="one more"), principal=Principal("ana"))
    check = ChainCheck("c-1")
    entries = [check.add(seq, event) for seq, event in enumerate(conversation.log, 1)]
    assert check.breaks == []
    [entry] = [one for one in entries if one is not None and one.kind == "suspension_settled"]
    assert (entry.tool, entry.principal_id, entry.reason) == ("holdfast.limit", "ana", "one more")


def test_a_question_whose_arguments_were_changed_breaks_the_chain(begins):
    conversation, _ = after_rounds(begins)
    check = ChainCheck("c-1")
    for seq, event in enumerate(conversation.log, 1):
        other = {"own_arguments": '{"bound":"another"}'}
        check.add(seq, event.model_copy(update=other) if isinstance(event, CallSuspended) else event)
    assert [one.problem for one in check.breaks] == [
        "the arguments of t1.rounds.1 are not those that its suspension stands for"
    ]


def test_a_state_that_asks_is_written_and_read(begins):
    conversation, _ = after_rounds(begins)
    assert codec.decode(State, codec.encode(conversation.state)) == conversation.state
    assert conversation.state.turn.asking == Reached(reason=StopReason.ROUNDS, detail="Stop(rounds=1)")


def test_a_turn_of_an_agent_that_does_not_ask_writes_what_it_wrote_before(conversations):
    conversation = conversations(spec=desk(rounds=1).model_copy(update={"stop": Stop(rounds=1)})).begun()
    [started] = [event for event in conversation.log if event.kind == "turn_started"]
    assert "asks" not in started.model_dump(exclude_defaults=True)
    assert "asks" not in conversation.state.turn.model_dump(exclude_defaults=True)
