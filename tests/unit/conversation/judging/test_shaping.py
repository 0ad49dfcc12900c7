"""Replies of an agent that gives them a shape: those that fit end the turn, others are asked for again."""

import pytest

from holdfast.conversation import FailureReason, ModelReplied, Status, StopReason, outstanding
from holdfast.conversation.records.commands import ProposedCall
from holdfast.conversation.terms.reply import FINAL_ANSWER
from holdfast.conversation.terms.stopping import Stop
from holdfast.conversation.text import jsontext
from holdfast.errors import SettledBy

SHAPE = '{"type":"object","properties":{"order":{"type":"integer"}},"required":["order"]}'
LOOKUP = ProposedCall(tool_call_id="call_1", name="lookup", arguments="{}")


def shaped(conversation, **more):
    return conversation.desk.model_copy(update={"reply": SHAPE, **more})


@pytest.fixture
def begun(conversation):
    conversation.spec = shaped(conversation)
    return conversation.begun()


def final(begun, arguments='{"order":7}', number=""):
    return ProposedCall(tool_call_id=f"{begun.effect_ids[0]}{number}", name=FINAL_ANSWER, arguments=arguments)


def answer(begun, *calls, **more):
    return begun.do(ModelReplied(effect_id=begun.effect_ids[0], calls=calls, **more))


def kinds(judgement):
    return [event.kind for event in judgement.events]


def test_a_text_that_fits_ends_the_turn(begun):
    judgement = answer(begun, content='{"order":7}')
    assert kinds(judgement) == ["model_answered", "turn_completed"]
    assert (judgement.events[0].shaped, judgement.events[0].misfit) == (True, None)


def test_a_call_that_fits_ends_the_turn_and_has_a_result_and_never_runs(begun):
    judgement = answer(begun, final(begun))
    assert kinds(judgement) == ["model_answered", "call_resolved", "turn_completed"]
    assert (judgement.events[1].ok, judgement.events[1].by) == (True, SettledBy.REPLY)
    assert (begun.status, outstanding(begun.state)) == (Status.IDLE, ())
    assert [one["role"] for one in begun.messages()] == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It is 7.", "not JSON"),
        ("", "there is none"),
        (None, "there is none"),
        ("[7]", "not a JSON object"),
        ('{"order":"7"}', "$.order"),
        ("{}", "order"),
        ("[" * 5000, "not JSON"),
        ('{"order":NaN}', "not JSON"),
        ('{"order":7,"x":"\ud800"}', ""),
    ],
)
@pytest.mark.parametrize("by_call", [False, True])
def test_the_model_is_told_what_is_wrong_with_a_reply_and_asked_again(begun, text, words, by_call):
    judgement = answer(begun, final(begun, text or "")) if by_call else answer(begun, content=text)
    if not words:  # a lone surrogate is replaced, as the log holds it
        assert judgement.events[0].shaped
        return
    assert judgement.events[0].misfit
    assert words in judgement.events[0].misfit
    assert begun.status is Status.GENERATING
    told = begun.messages()[-1]
    assert told["role"] == ("tool" if by_call else "user")
    assert words in jsontext.loads(told["content"])["error"]
    assert jsontext.loads(told["content"])["ok"] is False
    assert answer(begun, content='{"order":7}').events[-1].kind == "turn_completed"


@pytest.mark.parametrize("by_call", [False, True])
def test_after_two_repairs_the_turn_fails_and_the_conversation_goes_on(begun, by_call):
    for _ in range(2):
        answer(begun, *((final(begun, "{}"),) if by_call else ()), content=None if by_call else "seven")
        assert begun.status is Status.GENERATING
    judgement = answer(begun, *((final(begun, "{}"),) if by_call else ()), content=None if by_call else "seven")
    assert judgement.events[-1].reason is FailureReason.INVALID_REPLY
    assert "2 repairs" in judgement.events[-1].error
    assert outstanding(begun.state) == ()
    begun.send()
    begun.begin()
    answer(begun, content="seven")
    assert begun.status is Status.GENERATING


def test_repairs_are_counted_over_the_whole_turn(begun):
    answer(begun, content="seven")
    answer(begun, LOOKUP)
    begun.finish("call_1")
    answer(begun, content="seven")
    judgement = answer(begun, content="seven")
    assert judgement.events[-1].reason is FailureReason.INVALID_REPLY


def test_without_a_model_call_left_a_reply_that_does_not_fit_fails_the_turn_for_that(conversation):
    conversation.spec = shaped(conversation, limits=conversation.desk.limits.model_copy(update={"max_model_calls": 1}))
    judgement = answer(conversation.begun(), content="seven")
    assert judgement.events[-1].reason is FailureReason.INVALID_REPLY
    assert "max_model_calls" in judgement.events[-1].error


def test_a_reply_beside_other_calls_is_refused_and_these_run(begun):
    judgement = answer(begun, LOOKUP, final(begun))
    assert kinds(judgement) == ["model_answered", "run_scheduled", "call_resolved"]
    assert "alone" in judgement.events[-1].content
    assert (judgement.events[0].shaped, judgement.events[0].misfit) == (False, None)


def test_two_replies_in_one_answer_do_not_fit(begun):
    judgement = answer(begun, final(begun), final(begun, number="b"))
    assert "once" in judgement.events[0].misfit
    assert kinds(judgement) == ["model_answered", "call_resolved", "call_resolved"]


def test_a_reply_that_was_cut_off_is_asked_for_again(begun):
    for calls, text in (((), '{"order":'), ((final(begun, '{"order":'),), None)):
        judgement = answer(begun, *calls, content=text, finish_reason="length")
        assert "cut off" in judgement.events[0].misfit
        assert begun.status is Status.GENERATING
        begun.cancel()
        begun.send()
        begun.begin()


def test_a_reply_that_a_filter_cut_off_ends_the_turn_without_a_shape(begun):
    judgement = answer(begun, content="I will not.", finish_reason="content_filter")
    assert (judgement.events[-1].kind, judgement.events[-1].stopped) == ("turn_completed", StopReason.CONTENT_FILTER)
    assert not judgement.events[0].shaped


def test_what_the_validators_of_the_app_say_counts_behind_the_schema(begun):
    assert answer(begun, content="{}", misfit="$.order: too old").events[0].misfit.endswith('"order" is a required property')
    assert answer(begun, content='{"order":7}', misfit="$.order: too old").events[0].misfit == "$.order: too old"


def test_steered_messages_join_behind_the_word_on_the_reply_and_after_one_that_fits(begun):
    begun.send("and quickly", when="steer")
    answer(begun, content="seven")
    assert begun.kinds()[-2:] == ["model_answered", "input_joined"]
    assert [one["role"] for one in begun.messages()][-3:] == ["assistant", "user", "user"]
    begun.send("more", when="steer")
    answer(begun, final(begun))
    assert begun.kinds()[-2:] == ["call_resolved", "input_joined"]
    assert begun.status is Status.GENERATING


def test_a_reply_is_no_round_and_no_failed_result_of_a_stop_and_its_tokens_count(conversation):
    conversation.spec = shaped(conversation, stop=Stop(rounds=1, errors=1, loop=1, tokens=100))
    begun = conversation.begun()
    answer(begun, final(begun, "{}"))
    answer(begun, final(begun, "{}"))
    assert begun.status is Status.GENERATING
    judgement = answer(begun, content="seven", output_tokens=200)
    assert judgement.events[-1].reason is FailureReason.INVALID_REPLY
    begun.send()
    begun.begin()
    judgement = answer(begun, final(begun, "{}"), output_tokens=200)
    assert (judgement.events[-1].kind, judgement.events[-1].stopped) == ("turn_completed", StopReason.TOKENS)
    assert judgement.events[-2].kind == "call_resolved"


def test_a_turn_that_stops_with_last_words_asks_for_no_shape(conversation):
    conversation.spec = shaped(conversation, stop=Stop(rounds=1, then="last_words"))
    begun = conversation.begun()
    answer(begun, LOOKUP)
    begun.finish("call_1")
    assert answer(begun, LOOKUP.model_copy(update={"tool_call_id": "call_2"})).events[-1].kind == "stop_reached"
    judgement = answer(begun, content="I have looked it up.")
    assert (judgement.events[-1].kind, judgement.events[-1].stopped) == ("turn_completed", StopReason.ROUNDS)
    assert (judgement.events[0].shaped, judgement.events[0].misfit) == (False, None)


def test_a_turn_whose_time_is_over_is_not_repaired(conversation):
    conversation.spec = shaped(conversation, stop=Stop(timeout_s=5))
    begun = conversation.begun()
    begun.now += 60_000
    judgement = answer(begun, content="Seven.")
    assert (judgement.events[-1].kind, judgement.events[-1].stopped) == ("turn_completed", StopReason.TIMEOUT)


def test_a_reply_that_fits_in_the_end_of_the_time_ends_the_turn_whatever_is_to_join_it(conversation):
    conversation.spec = shaped(conversation, stop=Stop(timeout_s=5))
    begun = conversation.begun()
    begun.send("and quickly", when="steer")
    begun.now += 60_000
    judgement = answer(begun, final(begun))
    assert (judgement.events[-1].kind, judgement.events[-1].stopped) == ("turn_completed", None)
    assert judgement.events[0].shaped


def test_an_agent_without_a_shape_writes_what_it_wrote(conversation):
    begun = conversation.begun()
    judgement = answer(begun, content="seven")
    assert judgement.events[0].model_dump(exclude_defaults=True).keys() == {"at", "effect_id", "content"}
    begun.send()
    begun.begin()
    judgement = answer(begun, final(begun))
    assert "there is no tool" in judgement.events[1].content
