"""An answer, folded from the chunks of any route: those without a stream of Anthropic's or OpenAI's own."""

import json
from types import SimpleNamespace as Made

import pytest

from holdfast.actors.worker import prompt
from holdfast.actors.worker.anthropic_blocks import AnthropicBlocks
from holdfast.actors.worker.model_answer import NAME_CHARS, Broken, CallPiece, ModelAnswer, TooMuch
from holdfast.conversation import FailureReason, Limits


def chunk(**delta):
    return Made(choices=[Made(index=0, delta=Made(**delta))], usage=None)


def called(call_id, name, arguments, index=0):
    return chunk(tool_calls=[Made(index=index, id=call_id, function=Made(name=name, arguments=arguments))])


def folded(*chunks, ended="stop", **limits):
    answer = ModelAnswer(Limits(**limits))
    for one in chunks:
        answer.add(one)
    answer.ended(ended)
    answer.finish()
    return answer


def test_thinking_of_another_route_is_kept_with_its_signatures():
    answer = folded(
        chunk(reasoning_content="one ", thinking_blocks=[{"type": "thinking", "thinking": "one "}]),
        chunk(reasoning_content="two", thinking_blocks=[{"type": "thinking", "thinking": "two"}]),
        chunk(reasoning_content="", thinking_blocks=[{"type": "thinking", "thinking": "", "signature": "s-1"}]),
        chunk(thinking_blocks=[{"type": "redacted_thinking", "data": "d"}]),
        chunk(thinking_blocks=[{"type": "thinking", "thinking": "three"}]),
        chunk(content="Done."),
    )
    kept = json.loads(answer.provider("bedrock"))
    assert kept == {
        "route": "bedrock",
        "thinking_blocks": [
            {"type": "thinking", "thinking": "one two", "signature": "s-1"},
            {"type": "redacted_thinking", "data": "d"},
            {"type": "thinking", "thinking": "three", "signature": ""},
        ],
    }
    assert (answer.content, answer.reasoning) == ("Done.", "one two")


@pytest.mark.parametrize(("route", "sent"), [("bedrock", True), ("openai", False), ("", False)])
def test_thinking_goes_back_on_the_route_that_it_came_from_alone(route, sent):
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    provider = {"route": "bedrock", "thinking_blocks": blocks}
    message = {
        "role": "assistant",
        "content": "Done.",
        "reasoning_content": "hm",
        "provider": provider,
        "finish_reason": "length",
    }
    (plain,) = prompt.messages([message], instructions="", route=route, anthropic=False)
    assert plain == {"role": "assistant", "content": "Done."} | ({"thinking_blocks": blocks} if sent else {})


@pytest.mark.parametrize(
    "part", [Made(index=0, id=None, function=None), Made(index=9, function=Made(name=7, arguments=None)), Made()]
)
def test_a_call_without_a_function_breaks_nothing(part):
    answer = folded(called("call_1", "lookup", "{}"), chunk(tool_calls=[part]), ended="tool_calls")
    assert [(call.tool_call_id, call.name, call.arguments) for call in answer.calls()] == [("call_1", "lookup", "{}")]


def test_a_call_that_anthropic_executed_is_none_of_ours_on_any_route():
    answer = folded(called("srvtoolu_1", "web_search", "{}"), called("call_1", "lookup", "{}", index=1), max_calls=1)
    assert [call.tool_call_id for call in answer.calls()] == ["call_1"]


def test_a_call_that_stands_in_anthropics_stream_as_its_own_is_none_of_ours_whatever_its_id():
    answer = ModelAnswer(Limits(max_calls=1))
    answer.blocks = AnthropicBlocks()
    for index, kind, call_id in ((0, "mcp_tool_use", "mcptoolu_1"), (1, "tool_use", "toolu_1")):
        block = {"type": kind, "id": call_id, "name": "lookup", "input": {}}
        answer.blocks.add({"type": "content_block_start", "index": index, "content_block": block}, 100)
        answer.add(called(call_id, "lookup", "{}", index))
    assert [call.tool_call_id for call in answer.calls()] == ["toolu_1"]


def test_the_citations_of_a_text_are_kept_in_order():
    blocks = AnthropicBlocks()
    blocks.add({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}, 50)
    for delta in (
        {"type": "text_delta", "text": "It rains."},
        {"type": "citations_delta", "citation": {"url": "https://one.example"}},
        {"type": "citations_delta", "citation": {"url": "https://two.example"}},
    ):
        blocks.add({"type": "content_block_delta", "index": 0, "delta": delta}, 50)
    (kept,) = blocks.kept("It rains.", "", 0)
    assert kept == {"type": "text", "length": 9, "citations": [{"url": "https://one.example"}, {"url": "https://two.example"}]}


def test_arguments_in_many_pieces_are_joined_once():
    answer = folded(called("call_1", "lookup", ""), *[called(None, None, "x")] * 50_000, ended="tool_calls")
    assert answer.calls()[0].arguments == "x" * 50_000


def test_lone_surrogates_never_leave():
    answer = folded(chunk(content="a\ud800"), chunk(reasoning_content="\udfff"), called("c\ud800", "n\ud800", '{"a":"\ud800"}'))
    (call,) = answer.calls()
    texts = [answer.content, answer.reasoning, call.tool_call_id, call.name, call.arguments]
    assert [text.encode() for text in texts] == [b"a?", b"?", b"c?", b"n?", b'{"a":"?"}']


@pytest.mark.parametrize("tokens", [-1, 1 << 60, True, "7", 1.5, None])
def test_token_numbers_that_are_no_counts_are_left_out(tokens):
    answer = ModelAnswer(Limits())
    answer.counted()
    answer.add(Made(choices=[], usage=Made(prompt_tokens=tokens, completion_tokens=7)))
    assert answer.tokens == (None, 7)


def test_what_is_not_said_to_be_over_is_broken():
    with pytest.raises(Broken, match="before the provider said"):
        folded(chunk(content="half"), ended=None)


FAILED = [
    *("error", "ERROR", "MALFORMED_FUNCTION_CALL", "abort", "TIMEOUT", "ERROR_LIMIT", "USER_CANCEL", "failed"),
    *("TOO_MANY_TOOL_CALLS", "malformed_tool_use"),
]


@pytest.mark.parametrize("reason", FAILED)
def test_what_is_said_to_have_failed_is_broken(reason):
    with pytest.raises(Broken, match=reason):
        folded(chunk(content="half"), ended=reason)


@pytest.mark.parametrize("reason", ["something_new", "Half_Done"])
def test_after_a_reason_that_nobody_knows_a_text_is_taken_and_a_call_is_not(reason):
    assert folded(chunk(content="text"), ended=reason).finish_reason == reason
    with pytest.raises(Broken, match=reason):
        folded(chunk(content="text"), called("call_1", "lookup", "{}"), ended=reason)


@pytest.mark.parametrize(
    "reason",
    [
        *("stop", "STOP", "tool_calls", "tool_use", "TOOL_CALL", "function_call", "end_turn", "stop_sequence"),
        *("eos", "eos_token", "complete", "COMPLETE", "completed", "pause_turn"),
    ],
)
def test_the_calls_of_an_answer_that_its_provider_calls_whole_are_taken(reason):
    assert len(folded(called("call_1", "lookup", "{}"), ended=reason).calls()) == 1


@pytest.mark.parametrize("reason", ["incomplete", "INCOMPLETE", "max_tokens", "model_length"])
def test_an_answer_that_is_said_to_be_incomplete_was_cut_off(reason):
    assert folded(called("call_1", "lookup", "{}"), ended=reason).finish_reason == "length"


def test_a_call_that_was_made_text_of_is_not_missing_and_one_without_a_text_is():
    def ended(*chunks, made):
        answer = ModelAnswer(Limits())
        for one in chunks:
            answer.add(one)
        answer.call_made_text = made
        answer.ended("tool_use")
        answer.finish()
        return answer.finish_reason

    assert ended(chunk(content='{"a":1}'), made=True) == "stop"
    for chunks, made in (((), True), ((chunk(content="I look"),), False)):
        with pytest.raises(Broken, match="without a call"):
            ended(*chunks, made=made)


def test_what_a_provider_alone_reads_counts_as_its_bytes():
    answer = ModelAnswer(Limits(reply_bytes=100))
    assert answer.heard(brought=100)
    assert not answer.heard(brought=1)
    with pytest.raises(TooMuch) as refused:
        answer.check()
    assert refused.value.reason is FailureReason.REPLY_BYTES


@pytest.mark.parametrize(
    "event",
    [
        *(
            {},
            {"type": "content_block_start"},
            {"type": "content_block_start", "index": "0", "content_block": {"type": "text"}},
        ),
        *({"type": "content_block_start", "index": 0, "content_block": None}, {"type": "content_block_delta", "index": 3}),
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": None}},
        {"type": "content_block_delta", "index": 0, "delta": "x"},
    ],
)
def test_events_that_are_none_of_anthropics_break_nothing(event):
    blocks = AnthropicBlocks()
    blocks.add(event, 10)
    assert blocks.kept("", "", 0) == []


def test_the_pieces_of_a_call_say_which_of_the_answers_calls_they_are_of():
    answer = ModelAnswer(Limits())
    said = [
        piece
        for one in (
            called("srvtoolu_1", "web_search", "{}", 0),
            called("call_1", "ref", "", 1),
            called("", "und", '{"or', 1),
            called("call_2", "ship", "{}", 2),
            called("", "", 'der":1}', 1),
            chunk(content="text"),
        )
        for piece in answer.add(one)[2]
    ]
    assert said == [
        CallPiece(0, "ref", ""),
        CallPiece(0, "refund", '{"or'),
        CallPiece(1, "ship", "{}"),
        CallPiece(0, "refund", 'der":1}'),
    ]
    assert [call.name for call in answer.calls()] == ["refund", "ship"]


def test_a_call_of_the_providers_that_says_so_late_takes_no_place_from_ours():
    answer = ModelAnswer(Limits())
    first = answer.add(called("", "web_search", "", 0))[2]
    answer.add(called("srvtoolu_1", "", "{}", 0))
    (ours,) = answer.add(called("call_1", "refund", "{}", 1))[2]
    assert (first[0].index, ours.index, [call.name for call in answer.calls()]) == (0, 0, ["refund"])


def test_a_name_that_is_said_again_and_again_is_kept_once_long_enough():
    answer = ModelAnswer(Limits())
    for _ in range(5_000):
        (piece,) = answer.add(called("", "xy", "", 0))[2]
    assert len(piece.tool) <= NAME_CHARS
    assert len(answer._calls[0].names) <= NAME_CHARS
