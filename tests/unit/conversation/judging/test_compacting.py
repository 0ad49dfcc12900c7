"""A summary is an outcome of the model call that it precedes: it is recorded once, and then the model is called anew."""

import pytest

from holdfast.conversation import AgentSpec, CallModel, Limits, State, Status, Stop, Summarized, ToolSpec, evolve, outstanding
from holdfast.conversation.log.index import delta
from holdfast.conversation.records.event_base import FailureReason, SummaryFailure
from holdfast.conversation.records.events import Compacted, SummaryFailed
from holdfast.persistence import codec

NOTES = "the order is 7"


def summary(boundary=2, messages=1, **more):
    """The step that a worker takes with a summary."""
    said = {"summary": NOTES, "boundary": boundary, "messages": messages} | more
    return lambda state: Summarized(effect_id=outstanding(state)[0].effect_id, **said)


def failure(reason=SummaryFailure.NO_ANSWER, **more):
    return lambda state: Summarized(effect_id=outstanding(state)[0].effect_id, failed=reason, error="overloaded", **more)


@pytest.fixture
def second(conversations):
    """A conversation at the first model call of its second turn, at the ninth entry of its log."""
    conversation = conversations().begun()
    conversation.finish(*conversation.call("lookup"))
    conversation.reply("it is 7")
    conversation.send("and now?")
    conversation.begin()
    return conversation


def test_the_model_call_that_a_summary_precedes_is_called_anew_under_another_id(second):
    [before] = outstanding(second.state)
    second.do(summary(boundary=second.state.seq - 2, messages=4))
    [after] = outstanding(second.state)
    assert isinstance(after, CallModel)
    assert (before.effect_id, after.effect_id) == ("t2.m1", "t2.m1.r1")
    assert after.upto_seq == second.state.seq == before.upto_seq + 1
    compacted = second.log[-1]
    assert isinstance(compacted, Compacted)
    assert (compacted.effect_id, compacted.summary, compacted.messages) == ("t2.m1", NOTES, 4)
    assert compacted.spec_digest == second.spec.digest
    assert (second.state.boundary, second.state.compacted_at) == (second.state.seq - 3, second.state.seq)
    second.reply("shipped")
    assert (second.status, second.log[-2].effect_id) == (Status.IDLE, "t2.m1.r1")
    assert second.messages()[-1]["content"] == "shipped"


def test_the_next_model_call_has_its_own_id_again(second):
    second.do(failure())
    second.finish(*second.call("lookup"))
    assert second.effect_ids == ["t2.m2"]


@pytest.mark.parametrize("outcome", [summary(), failure()], ids=["summary", "failure"])
def test_a_summary_settles_the_work_of_one_model_call_and_schedules_that_of_the_other(second, outcome):
    before = second.state
    events = second.do(outcome).events
    changed = delta(before, second.state, events)
    assert (changed.settled, changed.scheduled) == (("t2.m1",), ("t2.m1.r1",))


@pytest.mark.parametrize("outcome", [summary(), failure()], ids=["summary", "failure"])
def test_an_outcome_of_the_call_before_is_late_once_the_summary_stands(second, outcome):
    late = [outcome(second.state), *(step(second.state) for step in (summary(boundary=5), failure()))]
    second.do(outcome)
    with second.unchanged():
        for one in late:
            assert second.judge(one).ignored


def test_a_failure_says_why_and_the_turn_goes_on(second):
    second.do(failure(SummaryFailure.REFUSED, input_tokens=5))
    failed = second.log[-1]
    assert isinstance(failed, SummaryFailed)
    assert (failed.reason, failed.error, failed.input_tokens) == (SummaryFailure.REFUSED, "overloaded", 5)
    assert (second.state.boundary, second.effect_ids) == (0, ["t2.m1.r1"])
    second.reply("shipped")
    assert second.status is Status.IDLE


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (summary(summary=" \n"), SummaryFailure.EMPTY),
        (summary(boundary=0), SummaryFailure.UNUSABLE),
        (summary(boundary=99), SummaryFailure.UNUSABLE),
        (summary(messages=0), SummaryFailure.UNUSABLE),
    ],
)
def test_a_summary_that_cannot_stand_is_a_failure(second, outcome, reason):
    second.do(outcome)
    assert (second.log[-1].kind, second.log[-1].reason, second.state.boundary) == ("summary_failed", reason, 0)


def test_a_boundary_never_moves_back(second):
    second.do(summary(boundary=6, messages=4))
    for boundary in (5, 6):
        second.do(summary(boundary=boundary, messages=4))
        assert second.log[-1].reason is SummaryFailure.UNUSABLE
    assert second.state.boundary == 6
    second.do(summary(boundary=7, messages=4))
    assert second.state.boundary == 7


def test_a_summary_beyond_the_bytes_of_an_answer_is_too_long(conversations):
    conversation = conversations(spec=AgentSpec(name="desk", model="m", limits=Limits(reply_bytes=100))).begun()
    conversation.do(summary(summary="x" * 101))
    assert conversation.log[-1].reason is SummaryFailure.TOO_LONG


def test_words_that_utf8_cannot_encode_are_cleaned(second):
    second.do(summary(summary="7 \ud800"))
    codec.encode(second.log[-1])
    second.do(failure(model="m\ud800"))
    codec.encode(second.log[-1])


def test_the_tokens_of_summaries_count_toward_the_bound_of_a_turn(conversations):
    spec = AgentSpec(name="desk", model="m", tools=(ToolSpec(name="lookup"),), stop=Stop(tokens=100))
    conversation = conversations(spec=spec).begun()
    conversation.do(failure(SummaryFailure.EMPTY, input_tokens=90, output_tokens=5))
    conversation.call("lookup", input_tokens=5)
    assert conversation.log[-1].detail == "Stop(tokens=100): 100 so far"


def test_what_summaries_cost_counts_toward_the_bound_of_a_turn(conversations):
    spec = AgentSpec(name="desk", model="m", tools=(ToolSpec(name="lookup"),), stop=Stop(cost_usd=0.5))
    conversation = conversations(spec=spec).begun()
    conversation.do(failure(SummaryFailure.EMPTY, cost_usd=0.25))
    conversation.do(summary(cost_usd=0.25))
    conversation.call("lookup")
    assert conversation.log[-1].detail == "Stop(cost_usd=0.5): 0.5 so far"


def test_no_summary_is_judged_between_turns_or_while_calls_run(second):
    second.call("lookup")
    with second.unchanged():
        assert second.judge(Summarized(effect_id="t2.m1", summary=NOTES, boundary=2, messages=1)).ignored


def test_a_cancelled_turn_takes_no_summary(second):
    late = summary()(second.state)
    second.cancel()
    with second.unchanged():
        assert second.judge(late).ignored


# -- requests that are too long ----------------------------------------------------------------------------------------------

OVERFLOW = {"reason": FailureReason.CONTEXT_OVERFLOW}


def test_a_request_that_is_too_long_is_made_smaller_once_in_a_turn(second):
    second.fail_model("too many tokens", **OVERFLOW, reducible=True)
    refused = second.log[-1]
    assert (refused.kind, refused.effect_id, refused.error) == ("context_overflowed", "t2.m1", "too many tokens")
    assert second.effect_ids == ["t2.m1.r1"]
    second.finish(*second.call("lookup"))
    second.fail_model("too many tokens", **OVERFLOW, reducible=True)
    assert (second.log[-1].kind, second.log[-1].reason) == ("turn_failed", FailureReason.CONTEXT_OVERFLOW)
    second.send("again")
    second.begin()
    second.fail_model("too many tokens", **OVERFLOW, reducible=True)
    assert second.effect_ids == ["t3.m1.r1"], "once in each turn"


def test_a_request_that_cannot_be_made_smaller_fails_its_turn(second):
    second.fail_model("too many tokens", **OVERFLOW)
    assert (second.log[-1].kind, second.log[-1].reason) == ("turn_failed", FailureReason.CONTEXT_OVERFLOW)


def test_a_summary_follows_on_a_request_that_was_too_long_and_each_has_its_own_id(second):
    second.fail_model("too many tokens", **OVERFLOW, reducible=True)
    second.do(failure())
    assert second.effect_ids == ["t2.m1.r2"]
    second.reply("shipped")
    assert second.status is Status.IDLE


def test_last_words_that_are_asked_for_with_too_much_are_asked_for_with_less(conversations):
    spec = AgentSpec(name="desk", model="m", tools=(ToolSpec(name="lookup"),), stop=Stop(errors=1, then="last_words"))
    conversation = conversations(spec=spec).begun()
    conversation.finish(*conversation.call("lookup"), ok=False, content='{"ok":false,"error":"no"}')
    conversation.fail_model("too many tokens", **OVERFLOW, reducible=True)
    [effect] = outstanding(conversation.state)
    assert (effect.effect_id, effect.stopped) == ("t1.last.r1", "Stop(errors=1)")
    conversation.reply("it does not work")
    assert conversation.log[-1].stopped == "errors"


@pytest.mark.parametrize("outcome", [summary(asked_at=2, tokens_before=9, tokens_after=3), failure(cost_usd=0.1)])
def test_the_events_and_the_outcome_are_read_as_they_were_written(second, outcome):
    command = outcome(second.state)
    assert codec.decode_outcome(codec.encode(command)) == command
    second.do(outcome)
    assert codec.decode_event(codec.encode(second.log[-1])) == second.log[-1]
    state = State(conversation_id="c-1")
    for event in second.log:
        state = evolve(state, event)
        assert codec.decode(State, codec.encode(state)) == state
    assert state == second.state
