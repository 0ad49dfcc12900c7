"""A turn that reaches a bound of its agent ends at once, or with the model's last words."""

import pytest

from holdfast.conversation import (
    AgentSpec,
    Answer,
    CallModel,
    Deny,
    Execution,
    Limits,
    ModelReplied,
    State,
    Status,
    Stop,
    StopReason,
    ToolSpec,
    When,
    evolve,
    outstanding,
)
from holdfast.conversation.records.event_base import FailureReason, Reached
from holdfast.conversation.records.events import StopReached, TurnCompleted
from holdfast.conversation.terms.spec import UnattendedApprovals, UnattendedSpec
from holdfast.errors import StaleCall, StaleReason
from holdfast.persistence import codec

BY_ROUNDS = Reached(reason=StopReason.ROUNDS, detail="Stop(rounds=1)")


def desk(limits=None, **bounds):
    tools = (ToolSpec(name="lookup"), ToolSpec(name="ask", executor="human"), ToolSpec(name="refund", approval="required"))
    return AgentSpec(name="desk", model="m", tools=tools, limits=limits or Limits(), stop=Stop(**bounds))


@pytest.fixture
def begins(conversations):
    """A conversation at the first model call of an agent with these bounds."""

    def begun(limits=None, **bounds):
        return conversations(spec=desk(limits, **bounds)).begun()

    return begun


@pytest.fixture
def stopping(begins):
    """A conversation at its last words: its turn has had one round, and the model asks for another."""
    conversation = begins(rounds=1, then="last_words")
    [first] = conversation.call("lookup")
    conversation.finish(first)
    conversation.call("lookup", content="and now")
    return conversation


def end(conversation):
    [ended] = [event for event in conversation.log if event.kind.startswith("turn_") and event.kind != "turn_started"]
    assert isinstance(ended, TurnCompleted)
    return ended


def test_the_last_words_are_one_model_call_of_an_id_of_its_own_that_says_by_which_bound(stopping):
    assert isinstance(stopping.log[-1], StopReached)
    assert (stopping.status, stopping.state.turn.stopping) == (Status.GENERATING, BY_ROUNDS)
    [effect] = outstanding(stopping.state)
    assert isinstance(effect, CallModel)
    assert (effect.effect_id, effect.stopped, effect.upto_seq) == ("t1.last", "Stop(rounds=1)", stopping.state.seq)


def test_no_other_model_call_is_asked_for_last_words(begins):
    conversation = begins(rounds=1, then="last_words")
    assert [effect.stopped for effect in outstanding(conversation.state)] == [""]
    conversation.reply("fine")
    assert (end(conversation).stopped, end(conversation).detail) == (None, "")


def test_the_turn_is_completed_with_the_last_words(stopping):
    stopping.reply("half is done")
    ended = end(stopping)
    assert (ended.stopped, ended.detail, ended.reply_seq) == (StopReason.ROUNDS, "Stop(rounds=1)", stopping.state.seq - 1)
    assert stopping.messages()[-1] == {"role": "assistant", "content": "half is done"}
    assert stopping.status is Status.IDLE


@pytest.mark.parametrize("tool", ["lookup", "ask", "refund", "nonsense"])
def test_calls_of_the_last_answer_get_an_error_result_and_the_turn_is_completed(stopping, tool):
    [asked] = stopping.call(tool, content="once more")
    assert stopping.kinds()[-3:] == ["model_answered", "call_resolved", "turn_completed"]
    assert stopping.result(asked) == {"ok": False, "error": "the turn was stopped (Stop(rounds=1)): this call did not run"}
    assert [message["role"] for message in stopping.messages()[-2:]] == ["assistant", "tool"]
    assert end(stopping).stopped is StopReason.ROUNDS


@pytest.mark.parametrize("finish_reason", ["length", "content_filter", "pause_turn"])
def test_last_words_that_are_cut_off_or_paused_end_the_turn_by_its_bound(stopping, finish_reason):
    stopping.reply("half is", finish_reason=finish_reason)
    assert (end(stopping).stopped, end(stopping).reply_seq) == (StopReason.ROUNDS, stopping.state.seq - 1)


def test_a_last_call_that_fails_completes_the_turn_without_words(stopping):
    answered_at = stopping.state.turn.answered_at
    stopping.fail_model("overloaded " * 100, reason=FailureReason.MODEL_ERROR)
    ended = end(stopping)
    assert (ended.stopped, ended.reply_seq) == (StopReason.ROUNDS, answered_at)
    assert ended.detail.startswith("Stop(rounds=1); the model's last words failed: overloaded")
    assert len(ended.detail) < 400
    assert (stopping.status, stopping.state.last.outcome) == (Status.IDLE, "completed")


def test_last_words_beyond_the_limits_complete_the_turn_without_them(begins):
    conversation = begins(Limits(reply_bytes=2000), rounds=1, then="last_words")
    conversation.finish(*conversation.call("lookup"))
    conversation.call("lookup")
    conversation.reply("x" * 3000)
    assert "the model's answer has 3000 bytes, 2000 are allowed" in end(conversation).detail
    assert "x" * 3000 not in repr(conversation.messages())


def test_a_turn_whose_model_calls_are_used_up_ends_without_last_words(begins):
    conversation = begins(Limits(max_model_calls=2), rounds=1, then="last_words")
    conversation.finish(*conversation.call("lookup"))
    conversation.call("lookup")
    assert end(conversation).stopped is StopReason.ROUNDS
    assert "stop_reached" not in conversation.kinds()


@pytest.mark.parametrize("bounds", [{"errors": 1}, {"tool": "lookup"}], ids=str)
def test_a_bound_that_results_reach_is_followed_by_last_words_once(begins, bounds):
    conversation = begins(then="last_words", **bounds)
    conversation.finish(*conversation.call("lookup"), ok=False, content='{"ok":false,"error":"no"}')
    assert conversation.effect_ids == ["t1.last"]
    conversation.wake()
    conversation.cancel_pending()
    assert conversation.effect_ids == ["t1.last"]
    conversation.reply("it does not work")
    assert conversation.kinds().count("stop_reached") == 1
    assert end(conversation).stopped.value in bounds


def test_a_message_that_was_to_join_waits_for_a_turn_of_its_own(stopping):
    stopping.send("and this", message_id="m-2", when=When.STEER)
    stopping.reply("half is done")
    assert stopping.effect_ids == [f"begin:{stopping.state.queue[0].seq}"]
    stopping.begin()
    assert stopping.effect_ids == ["t2.m1"]
    assert (stopping.state.turn.stopping, stopping.state.turn.rounds) == (None, 0)


def test_a_turn_is_cancelled_at_its_last_words_as_at_any_other(stopping):
    stopping.cancel()
    assert (stopping.kinds()[-1], stopping.effect_ids) == ("turn_cancelled", [])


def test_an_outcome_of_an_earlier_call_is_no_last_word(stopping):
    with stopping.unchanged():
        assert stopping.do(ModelReplied(effect_id="t1.m3", content="late")).ignored


def test_a_turn_whose_time_is_over_is_stopped_while_its_model_call_goes_on(begins):
    conversation = begins(timeout_s=60)
    began_at = conversation.now
    assert conversation.state.due_at == began_at + 60_000
    with conversation.unchanged():
        assert conversation.wake(at=began_at + 59_999).ignored
    conversation.wake(at=began_at + 60_000)
    ended = end(conversation)
    assert (ended.stopped, ended.detail, ended.reply_seq) == (StopReason.TIMEOUT, "Stop(timeout_s=60)", 0)
    assert (conversation.status, conversation.effect_ids, conversation.state.due_at) == (Status.IDLE, [], None)
    with conversation.unchanged():
        assert conversation.do(ModelReplied(effect_id="t1.m1", content="late")).ignored


def test_what_runs_and_what_is_held_gets_an_error_result(begins):
    conversation = begins(timeout_s=60)
    conversation.spec = conversation.spec.model_copy(update={"execution": Execution.SEQUENTIAL}).stored_as(
        conversation.spec.digest
    )
    running, held = conversation.call("lookup", "lookup")
    assert conversation.effect_ids == [f"{running}#1"]
    conversation.wake(at=conversation.state.due_at)
    stopped = "the turn was stopped (Stop(timeout_s=60))"
    assert conversation.result(running)["error"] == f"cancelled while it ran; it may or may not have taken effect: {stopped}"
    assert conversation.result(held)["error"] == f"cancelled before it was answered; it did not run: {stopped}"
    assert end(conversation).stopped is StopReason.TIMEOUT
    assert conversation.effect_ids == []


@pytest.mark.parametrize("tool", ["ask", "refund"])
def test_time_in_which_it_waits_for_people_does_not_count(begins, tool):
    conversation = begins(timeout_s=60)
    began_at = conversation.now
    [asked] = conversation.call(tool, at=began_at + 10_000)
    waiting_until = conversation.suspension(asked).expires_at
    assert conversation.state.due_at == waiting_until
    with conversation.unchanged():
        assert conversation.wake(at=began_at + 200_000).ignored
    conversation.cancel_pending(at=began_at + 210_000)
    assert conversation.state.due_at == began_at + 60_000 + 200_000
    conversation.call("lookup")
    conversation.wake(at=conversation.state.due_at)
    assert end(conversation).stopped is StopReason.TIMEOUT


def test_time_counts_again_once_the_last_call_is_decided_though_another_was_asked_for_meanwhile(begins):
    conversation = begins(timeout_s=60)
    began_at = conversation.now
    first, second, running = conversation.call("ask", "refund", "lookup", at=began_at + 10_000)
    conversation.resolve(Deny(), second, at=began_at + 20_000)
    conversation.finish(running, at=began_at + 30_000)
    assert (conversation.state.turn.due_at, conversation.state.turn.waiting_since) == (None, began_at + 10_000)
    conversation.resolve(Answer("blue"), first, at=began_at + 40_000)
    assert conversation.state.due_at == began_at + 90_000


def test_time_in_which_it_waits_for_people_counts_where_the_agent_says_so(begins):
    conversation = begins(timeout_s=60, waits=True)
    began_at = conversation.now
    [asked] = conversation.call("ask")
    assert conversation.state.due_at == began_at + 60_000
    conversation.wake(at=began_at + 60_000)
    assert conversation.kinds()[-3:] == ["suspension_settled", "call_resolved", "turn_completed"]
    assert "the turn was stopped (Stop(timeout_s=60))" in conversation.result(asked)["error"]
    with pytest.raises(StaleCall) as stale:
        conversation.resolve(Answer("blue"), asked)
    assert stale.value.reason is StaleReason.CANCELLED


def test_no_model_call_follows_after_the_time(begins):
    conversation = begins(timeout_s=60)
    began_at = conversation.now
    [running] = conversation.call("lookup")
    conversation.finish(running, at=began_at + 60_000)
    assert (end(conversation).stopped, conversation.effect_ids) == (StopReason.TIMEOUT, [])


def test_calls_of_an_answer_after_the_time_do_not_run(begins):
    conversation = begins(timeout_s=60)
    [asked] = conversation.call("lookup", at=conversation.now + 60_000)
    assert "this call did not run" in conversation.result(asked)["error"]
    assert end(conversation).stopped is StopReason.TIMEOUT


def test_an_answer_after_the_time_is_whole_and_what_was_to_join_waits(begins):
    conversation = begins(timeout_s=60)
    conversation.send("and this", message_id="m-2", when=When.STEER)
    conversation.reply("done", at=conversation.now + 60_000)
    assert (end(conversation).stopped, conversation.status) == (None, Status.GENERATING)
    assert conversation.effect_ids == [f"begin:{conversation.state.queue[0].seq}"]


def test_last_words_after_the_time_are_a_call_of_their_own_that_has_a_calls_time(begins):
    conversation = begins(timeout_s=60, then="last_words")
    conversation.wake(at=conversation.state.due_at)
    assert (conversation.effect_ids, conversation.state.due_at) == (["t1.last"], None)
    with conversation.unchanged():
        assert conversation.do(ModelReplied(effect_id="t1.m1", content="late")).ignored
        assert conversation.wake().ignored
    conversation.reply("I have not come far")
    assert (end(conversation).stopped, end(conversation).reply_seq) == (StopReason.TIMEOUT, conversation.state.seq - 1)


def test_each_turn_has_a_time_of_its_own(begins):
    conversation = begins(timeout_s=60)
    conversation.reply()
    assert conversation.state.due_at is None
    conversation.send("more", message_id="m-2", at=conversation.now + 500_000)
    conversation.begin()
    assert conversation.state.due_at == conversation.now + 60_000


@pytest.mark.parametrize("waits", [False, True])
def test_folding_from_any_place_keeps_the_time(begins, waits):
    conversation = begins(timeout_s=60, waits=waits)
    conversation.cancel_pending()
    first, second = conversation.call("ask", "refund")
    conversation.resolve(Answer("blue"), first)
    conversation.resolve(Deny(), second)
    state = State(conversation_id="c-1")
    for event in conversation.log:
        state = evolve(codec.decode(State, codec.encode(state)), event)
    assert state == conversation.state


def test_last_words_follow_calls_that_were_ended_with_the_time(begins):
    conversation = begins(Limits(max_model_calls=2), timeout_s=60, errors=1, then="last_words")
    running, other = conversation.call("lookup", "lookup")
    conversation.wake(at=conversation.state.due_at)
    assert (conversation.kinds()[-1], conversation.effect_ids) == ("stop_reached", ["t1.last"])
    assert not conversation.result(running)["ok"]
    assert not conversation.result(other)["ok"]
    conversation.reply("I have not come far")
    assert end(conversation).stopped is StopReason.TIMEOUT


def test_where_nobody_attends_last_words_follow_the_decisions_of_the_same_answer(conversations):
    unattended = UnattendedSpec(approvals=UnattendedApprovals.DENY)
    spec = desk(errors=1, then="last_words").model_copy(update={"unattended": unattended})
    conversation = conversations(spec=spec)
    conversation.start(attended=False)
    conversation.begin()
    conversation.call("refund", "refund")
    assert conversation.kinds()[-1] == "stop_reached"
    assert conversation.effect_ids == ["t1.last"]
    conversation.reply("I may not")
    assert end(conversation).stopped is StopReason.ERRORS


def test_a_turn_that_has_cost_so_much_is_stopped_before_its_calls_and_knows_no_rounding(begins):
    conversation = begins(cost_usd=0.3)
    for _ in range(2):
        conversation.finish(*conversation.call("lookup", cost_usd=0.1))
    assert (conversation.state.turn.nano_usd, conversation.status) == (200_000_000, Status.GENERATING)
    [refused] = conversation.call("lookup", cost_usd=0.1)
    ended = end(conversation)
    assert (ended.stopped, ended.detail) == (StopReason.COST, "Stop(cost_usd=0.3): 0.3 so far")
    assert conversation.result(refused)["error"] == f"the turn was stopped ({ended.detail}): this call did not run"


@pytest.mark.parametrize("cost_usd", [None, 0.0, -1.0, float("nan"), float("inf"), 1e300])
def test_a_cost_that_is_unknown_or_none_counts_nothing(begins, cost_usd):
    conversation = begins(cost_usd=0.000000001)
    conversation.call("lookup", cost_usd=cost_usd)
    assert (conversation.state.turn.nano_usd, conversation.status) == (0, Status.EXECUTING_TOOLS)


def test_only_turns_that_stop_count_what_they_cost_and_when_they_began(begins, conversations):
    conversation = begins(rounds=9)
    conversation.call("lookup", cost_usd=0.5)
    turn = conversation.state.turn
    assert (turn.nano_usd, turn.began_at, turn.stats.cost_usd) == (500_000_000, conversation.log[-3].at, 0.5)
    plain = conversations(spec=desk(rounds=9).model_copy(update={"stop": None})).begun()
    plain.call("lookup", cost_usd=0.5)
    assert (plain.state.turn.nano_usd, plain.state.turn.began_at, plain.state.turn.stats) == (0, 0, None)
    assert "nano_usd" not in plain.state.model_dump_json(exclude_defaults=True)


FOUND = Reached(reason=StopReason.CONTENT, detail="Stop(content='x')")


@pytest.mark.parametrize("then", ["end", "last_words"])
def test_a_bound_that_the_worker_has_found_stops_the_turn_as_any_other(begins, then):
    conversation = begins(content="x", then=then)
    [refused] = conversation.call("lookup", reached=FOUND, content="x")
    assert "the turn was stopped (Stop(content='x')): this call did not run" in conversation.result(refused)["error"]
    if then == "last_words":
        assert conversation.effect_ids == ["t1.last"]
        conversation.reply("well", reached=FOUND)
    assert (end(conversation).stopped, end(conversation).detail) == (StopReason.CONTENT, FOUND.detail)


def test_what_the_machine_counts_comes_before_what_the_worker_found(begins):
    conversation = begins(content="x", cost_usd=0.1)
    conversation.call("lookup", reached=FOUND, cost_usd=0.1)
    assert end(conversation).stopped is StopReason.COST


def test_a_bound_that_the_worker_found_for_an_agent_without_stop_or_without_calls_means_nothing(begins, conversations):
    plain = conversations(spec=desk(rounds=9).model_copy(update={"stop": None})).begun()
    plain.call("lookup", reached=FOUND)
    assert plain.status is Status.EXECUTING_TOOLS
    whole = begins(content="x")
    whole.reply("x", reached=FOUND)
    assert (end(whole).stopped, end(whole).detail) == (None, "")


def test_a_detail_that_no_text_can_hold_is_made_one(begins):
    conversation = begins(content="x")
    conversation.call("lookup", reached=Reached(reason=StopReason.WHEN, detail="a\ud800b"))
    assert end(conversation).detail == "a?b"


def test_a_cut_answer_and_a_reply_that_does_not_fit_may_reach_it_too(begins):
    conversation = begins(content="x")
    conversation.call("lookup", reached=FOUND, finish_reason="length")
    assert end(conversation).stopped is StopReason.CONTENT
    shaped = begins(content="x")
    shaped.spec = shaped.spec.model_copy(update={"reply": '{"type":"object","required":["a"]}'}).stored_as(shaped.spec.digest)
    shaped.reply("x", reached=FOUND)
    assert end(shaped).stopped is StopReason.CONTENT
