"""Answers of the model: whole ones, ones that were cut off or paused, and ones that are too much."""

import pytest

from holdfast.conversation import CallModel, FailureReason, ModelFailed, ModelReplied, Status, StopReason, outstanding
from holdfast.conversation.judging.outcomes import CUT_OFF
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.terms.stopping import Stop
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.envelope import failure

LOOKUP = ProposedCall(tool_call_id="call_1", name="lookup", arguments='{"order":7}')
REFUND = ProposedCall(tool_call_id="call_2", name="refund", arguments='{"amount": 1')


def answer(conversation, **more):
    return conversation.do(ModelReplied(effect_id=conversation.effect_ids[0], **more))


@pytest.mark.parametrize("finish_reason", ["length", "content_filter"])
def test_the_calls_of_an_answer_that_was_cut_off_never_run_and_the_turn_says_why(begun, finish_reason):
    # when an answer with a whole call and half a call is cut off, by the token limit for the third time in a row
    for _ in range(2 if finish_reason == "length" else 0):
        answer(begun, calls=(REFUND.model_copy(update={"tool_call_id": begun.effect_ids[0]}),), finish_reason=finish_reason)
    judgement = answer(begun, content="One moment", calls=(LOOKUP, REFUND), finish_reason=finish_reason)
    # then nothing runs or asks, each call is answered, and the turn fails with the reason
    assert [event.kind for event in judgement.events] == ["model_answered", "call_resolved", "call_resolved", "turn_failed"]
    assert {event.content for event in judgement.events[1:3]} == {failure(CUT_OFF.format(finish_reason))}
    assert judgement.events[-1].reason is FailureReason(finish_reason)
    assert finish_reason in judgement.events[-1].error
    assert (begun.status, outstanding(begun.state)) == (Status.FAILED, ())
    # and the conversation goes on with every call answered
    begun.send()
    begun.begin()
    assert [message["role"] for message in begun.messages()][-4:] == ["assistant", "tool", "tool", "user"]


def cut(conversation):
    call = REFUND.model_copy(update={"tool_call_id": conversation.effect_ids[0]})
    return answer(conversation, calls=(call,), finish_reason="length")


def test_the_model_is_told_twice_to_take_smaller_steps(begun):
    for number in (1, 2):
        judgement = cut(begun)
        assert [event.kind for event in judgement.events] == ["model_answered", "call_resolved"]
        assert "Take smaller steps" in jsontext.loads(judgement.events[1].content)["error"]
        assert begun.effect_ids == [f"t1.m{number + 1}"]
    begun.reply("Done.")
    assert (begun.log[-1].kind, begun.state.status) == ("turn_completed", Status.IDLE)


def test_a_whole_answer_between_them_and_a_new_turn_begin_the_count_anew(conversation):
    conversation.spec = conversation.desk_with(limits={"max_model_calls": 50})
    conversation.begun()
    begun = conversation
    cut(begun)
    cut(begun)
    answer(begun, calls=(LOOKUP,))
    begun.finish("call_1")
    cut(begun)
    cut(begun)
    assert begun.status is Status.GENERATING
    cut(begun)
    assert begun.log[-1].reason is FailureReason.LENGTH
    begun.send()
    begun.begin()
    cut(begun)
    assert begun.status is Status.GENERATING


def test_without_a_model_call_left_a_cut_call_fails_the_turn_for_its_length(conversation):
    conversation.spec = conversation.desk_with(limits={"max_model_calls": 2})
    conversation.begun()
    cut(conversation)
    judgement = cut(conversation)
    assert judgement.events[-1].reason is FailureReason.LENGTH
    assert "smaller steps" not in judgement.events[1].content


def test_steered_messages_join_before_the_model_is_asked_again(begun):
    begun.send("and quickly", when="steer")
    cut(begun)
    assert begun.kinds()[-2:] == ["call_resolved", "input_joined"]


@pytest.mark.parametrize(
    ("stop", "reason"),
    [(Stop(rounds=1), "rounds"), (Stop(errors=2), "errors"), (Stop(loop=1), "loop"), (Stop(tokens=1), "tokens")],
)
def test_a_bound_of_the_agent_ends_a_turn_of_cut_calls_too(conversation, stop, reason):
    conversation.spec = conversation.spec.model_copy(update={"stop": stop})
    conversation.begun()
    for _ in range(1 if reason == "tokens" else 2):
        call = REFUND.model_copy(update={"tool_call_id": conversation.effect_ids[0]})
        answer(conversation, calls=(call,), finish_reason="length", output_tokens=7)
    assert (conversation.log[-1].kind, conversation.log[-1].stopped) == ("turn_completed", reason)
    assert conversation.log[-2].kind == "call_resolved"


@pytest.mark.parametrize("finish_reason", ["length", "content_filter"])
def test_a_text_that_was_cut_off_is_the_reply_and_is_marked(begun, finish_reason):
    answer(begun, content="It was shi", finish_reason=finish_reason)
    assert begun.log[-1].kind == "turn_completed"
    assert begun.log[-1].stopped is StopReason(finish_reason)
    assert begun.messages()[-1] == {"role": "assistant", "content": "It was shi", "finish_reason": finish_reason}


@pytest.mark.parametrize("content", [None, ""])
@pytest.mark.parametrize(("finish_reason", "fix"), [("length", "max_tokens"), ("content_filter", "rephrase the request")])
def test_an_answer_that_was_cut_off_before_it_said_anything_fails_the_turn(begun, content, finish_reason, fix):
    answer(begun, content=content, reasoning="hm", finish_reason=finish_reason)
    assert (begun.log[-1].kind, begun.log[-1].reason) == ("turn_failed", FailureReason(finish_reason))
    assert fix in begun.log[-1].error


@pytest.mark.parametrize("finish_reason", ["stop", "tool_calls", "something_new", None])
def test_any_other_reason_cuts_nothing_off(begun, finish_reason):
    answer(begun, content="Done.", finish_reason=finish_reason)
    assert (begun.log[-1].kind, begun.log[-1].stopped) == ("turn_completed", None)
    assert begun.messages()[-1] == {"role": "assistant", "content": "Done."}


def test_an_answer_that_was_paused_is_gone_on_with_by_another_model_call(begun):
    answer(begun, content="I search", provider='{"anthropic":[]}', finish_reason="pause_turn")
    assert begun.kinds()[-1] == "model_answered"
    assert [type(effect) for effect in outstanding(begun.state)] == [CallModel]
    assert begun.effect_ids == ["t1.m2"]
    begun.reply("Found.")
    assert [message["content"] for message in begun.messages()] == ["hello", "I search", "Found."]


def test_a_paused_answer_with_a_call_of_ours_waits_for_its_result(begun):
    answer(begun, calls=(LOOKUP,), finish_reason="pause_turn")
    begun.finish("call_1")
    assert begun.effect_ids == ["t1.m2"]


def test_pauses_count_against_the_limit_of_model_calls(conversation):
    conversation.spec = conversation.desk_with(limits={"max_model_calls": 2})
    conversation.begun()
    answer(conversation, finish_reason="pause_turn")
    answer(conversation, finish_reason="pause_turn")
    assert conversation.log[-1].reason is FailureReason.MAX_MODEL_CALLS


def test_more_calls_than_are_allowed_fail_the_turn_and_none_of_them_runs(conversation):
    conversation.spec = conversation.desk_with(limits={"max_calls": 2})
    conversation.begun()
    calls = tuple(LOOKUP.model_copy(update={"tool_call_id": f"call_{number}"}) for number in range(3))
    judgement = answer(conversation, calls=calls)
    assert [event.kind for event in judgement.events] == ["turn_failed"]
    assert judgement.events[0].reason is FailureReason.MAX_CALLS
    assert "Limits.max_calls" in judgement.events[0].error


@pytest.mark.parametrize(
    "more",
    [
        *({"content": "é" * 60}, {"reasoning": "x" * 101}, {"provider": '{"a":"' + "x" * 70_000 + '"}'}),
        *({"calls": (LOOKUP.model_copy(update={field: "x" * 101}),)} for field in ("tool_call_id", "name", "arguments")),
    ],
    ids=["text", "reasoning", "provider", "id", "name", "arguments"],
)
def test_an_answer_of_more_bytes_than_are_allowed_fails_the_turn(conversation, more):
    conversation.spec = conversation.desk_with(limits={"reply_bytes": 100})
    conversation.begun()
    judgement = answer(conversation, **more)
    assert [event.kind for event in judgement.events] == ["turn_failed"]
    assert judgement.events[0].reason is FailureReason.REPLY_BYTES


def test_an_answer_as_large_as_is_allowed_is_taken(conversation):
    conversation.spec = conversation.desk_with(limits={"reply_bytes": 100, "max_calls": 1})
    conversation.begun()
    answer(conversation, content="x" * 100)
    assert conversation.status is Status.IDLE


def test_thinking_that_its_provider_reads_again_with_its_signature_counts_once(conversation):
    conversation.spec = conversation.desk_with(limits={"reply_bytes": 300_000})
    conversation.begun()
    # given thinking of almost as many bytes as are allowed, which JSON writes with more
    thinking = '"\n' * 140_000
    kept = jsontext.dumps(
        {"route": "bedrock", "thinking_blocks": [{"type": "thinking", "thinking": thinking, "signature": "s"}]}
    )
    assert len(kept) > 500_000
    answer(conversation, content="Done.", reasoning=thinking, provider=kept)
    assert conversation.log[-1].kind == "turn_completed"


def test_of_a_name_that_no_tool_can_have_the_beginning_is_kept(begun):
    answer(begun, calls=(LOOKUP.model_copy(update={"name": "x" * 5000}),))
    assert begun.log[-2].calls[0].name == "x" * 256
    assert "there is no tool named xxx" in begun.log[-1].content


def test_a_failed_model_call_fails_the_turn_with_its_reason(begun):
    begun.do(ModelFailed(effect_id="t1.m1", error="too slow", reason=FailureReason.MODEL_TIMEOUT))
    assert (begun.log[-1].error, begun.log[-1].reason) == ("too slow", FailureReason.MODEL_TIMEOUT)


def test_reasoning_and_what_only_the_provider_reads_stand_beside_the_reply(begun):
    answer(begun, content="Done.", reasoning="hm", provider='{"anthropic":[{"type":"text","length":5}]}')
    assert begun.messages()[-1] == {
        "role": "assistant",
        "content": "Done.",
        "reasoning_content": "hm",
        "provider": {"anthropic": [{"type": "text", "length": 5}]},
    }


@pytest.mark.parametrize("provider", ["", "[]", "null", '{"a":', "7"])
def test_a_message_is_readable_without_what_its_provider_alone_reads(begun, provider):
    answer(begun, content="Done.", provider=provider)
    assert begun.messages()[-1] == {"role": "assistant", "content": "Done."}
