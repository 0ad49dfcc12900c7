"""What is done about the quirks of single providers, event by event: nothing that a provider sends raises an error here."""

import json

import pytest

from holdfast.actors.worker import anthropic_blocks, chat_chunks, kept_parts, prompt
from holdfast.actors.worker.anthropic_blocks import AnthropicBlocks
from holdfast.actors.worker.chat_chunks import ResponsesEvents
from holdfast.actors.worker.gemini_parts import GeminiParts
from holdfast.actors.worker.kept_parts import KeptParts, ReasoningDetails
from holdfast.actors.worker.model_answer import ModelAnswer
from holdfast.conversation import Limits

SEALED = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "e"}


def test_parts_that_say_no_more_than_the_message_are_not_kept():
    parts = KeptParts()
    parts.text("It ")
    parts.text("rains.")
    parts.call()
    assert parts.kept("It rains.") == []


def test_texts_of_parts_are_kept_once_and_where_the_message_has_another_text_by_themselves():
    parts = KeptParts()
    parts.text("It ")
    parts.text("rains.")
    parts.text("", "s-1")
    assert parts.kept("It rains.") == [{"type": "text", "length": 9}, {"type": "text", "signature": "s-1", "length": 0}]
    assert parts.kept("It snows.") == [{"type": "text", "text": "It rains."}, {"type": "text", "signature": "s-1", "text": ""}]


def sent(parts, **plain):
    return [
        {name: value for name, value in message.items() if name != "role" and value is not None}
        for message in kept_parts.messages(parts, {"role": "assistant", **plain})
    ]


def test_reasoning_goes_with_the_part_that_it_led_to_and_without_its_id_where_that_part_is_not_sent():
    parts = KeptParts()
    parts.reasoning(SEALED)
    parts.other()
    parts.reasoning(SEALED | {"id": "rs_2"})
    parts.text("Look:")
    parts.reasoning(SEALED | {"id": "rs_3"})
    parts.call()
    parts.reasoning(SEALED | {"id": "rs_4"})
    parts.call()
    kept = parts.kept("Look:")
    unnamed = {"type": "reasoning", "summary": [], "encrypted_content": "e"}
    assert sent(kept, content="Look:", tool_calls=["one", "two"]) == [
        {"reasoning_items": [unnamed, SEALED | {"id": "rs_2"}], "content": "Look:"},
        {"reasoning_items": [SEALED | {"id": "rs_3"}], "tool_calls": ["one"]},
        {"reasoning_items": [SEALED | {"id": "rs_4"}], "tool_calls": ["two"]},
    ]
    # and of an answer that was cut off, whose calls are not sent, the reasoning before them is not either
    assert sent(kept, content="Look:") == [{"reasoning_items": [unnamed, SEALED | {"id": "rs_2"}], "content": "Look:"}]


def test_sealed_reasoning_goes_back_by_the_interface_that_it_came_by_alone():
    provider = {"parts": [{"type": "reasoning", "item": SEALED}, {"type": "text", "length": 3}], "route": "openai/responses"}
    message = {"role": "assistant", "content": "Hi.", "provider": provider}
    (there,) = prompt.messages([message], instructions="", route="openai/responses", anthropic=False)
    (elsewhere,) = prompt.messages([message], instructions="", route="openai", anthropic=False)
    assert there == {"role": "assistant", "content": "Hi.", "reasoning_items": [SEALED]}
    assert elsewhere == {"role": "assistant", "content": "Hi."}


def test_pieces_of_one_reasoning_text_are_joined_and_kept_once():
    details = ReasoningDetails()
    details.add([{"type": "reasoning.text", "text": "Let ", "index": 0, "format": None}])
    details.add([{"type": "reasoning.text", "text": "me.", "index": 0, "format": "f"}])
    details.add([{"type": "reasoning.text", "signature": "s", "index": 0}, {"type": "reasoning.encrypted", "data": "d"}, "x"])
    details.add("none")
    kept = details.kept("Let me.")
    assert kept == [
        {"type": "reasoning.text", "index": 0, "format": "f", "signature": "s", "length": 7},
        {"type": "reasoning.encrypted", "data": "d"},
    ]
    assert kept_parts.details_whole(kept, "Let me.")[0]["text"] == "Let me."
    assert details.kept("Otherwise.")[0]["text"] == "Let me."


def test_what_only_a_provider_reads_counts_against_the_limit_of_a_reply():
    answer = ModelAnswer(Limits(reply_bytes=100))
    answer.parts = KeptParts()
    answer.parts.text("", "s" * 60)
    assert answer.heard()
    answer.detailed([{"type": "reasoning.encrypted", "data": "d" * 60}])
    assert not answer.heard()


def gemini(*parts, ended=None):
    return {"candidates": [{"content": {"parts": list(parts)}} | ({"finishReason": ended} if ended else {})]}


def called(**call):
    return {"functionCall": call}


def mended(*events):
    reader, found = GeminiParts(), []
    for event in events:
        reader.mend(event)
        found += [part for one in event["candidates"] for part in (one.get("content") or {}).get("parts") or ()]
    return reader, found


def test_arguments_in_pieces_are_put_together():
    pieces = [
        {"jsonPath": "$.a[0].b", "stringValue": "x", "willContinue": True},
        {"jsonPath": "$.a[0].b", "stringValue": "y"},
        {"jsonPath": "$.a[1]", "numberValue": 1.5},
        {"jsonPath": "$['c']", "boolValue": False},
        {"jsonPath": "$.d", "nullValue": None},
    ]
    reader, found = mended(
        gemini(called(name="buy", willContinue=True)),
        *[gemini(called(partialArgs=[piece], willContinue=True)) for piece in pieces],
        gemini(called()),
        gemini(ended="STOP"),
    )
    assert found == [called(name="buy", args={"a": [{"b": "xy"}, 1.5], "c": False, "d": None})]
    assert (reader.unreadable, reader.kept.size) == (False, 0)


@pytest.mark.parametrize(
    "piece",
    [
        *({"jsonPath": "$", "stringValue": "x"}, {"jsonPath": "$.a", "other": 1}, {"stringValue": "x"}, "x"),
        *(
            {"jsonPath": "$.a[9]", "numberValue": 1},
            {"jsonPath": "$.a.*", "numberValue": 1},
            {"jsonPath": "$[0]", "boolValue": True},
        ),
        {"jsonPath": "$" + ".a" * 101, "numberValue": 1},
    ],
)
def test_pieces_of_arguments_of_an_unknown_form_are_said_to_be_unreadable(piece):
    reader, _ = mended(gemini(called(name="buy", willContinue=True)), gemini(called(partialArgs=[piece])))
    assert reader.unreadable


def test_arguments_that_never_end_count_against_the_limit_of_a_reply():
    pieces = [gemini(called(partialArgs=[{"jsonPath": "$.a", "stringValue": "x" * 100}], willContinue=True)) for _ in range(10)]
    reader, _ = mended(gemini(called(name="buy", willContinue=True)), *pieces)
    assert reader.kept.size > 1000


ODD = [
    *({}, {"type": None}, {"type": "x", "delta": 1}, {"type": "content-delta"}, {"type": "message-end", "delta": "x"}),
    *(
        {"type": "tool-call-start", "delta": {"message": {"tool_calls": []}}},
        {"type": "content-start", "delta": {"message": 1}},
    ),
    *({"type": "response.output_item.added", "item": None}, {"type": "response.completed", "response": None}),
    *({"type": "response.output_item.done", "item": {"type": "x"}, "output_index": [1]}, {"type": "response.failed"}),
    {"type": "response.function_call_arguments.delta", "delta": "x", "output_index": {}},
]


@pytest.mark.parametrize("event", ODD, ids=map(str, range(len(ODD))))
def test_events_that_are_none_say_nothing(event):
    assert chat_chunks.cohere_chunk(event) is None
    assert ResponsesEvents().chunk(event) is None


@pytest.mark.parametrize(
    "candidates",
    [
        [None],
        [{}],
        [{"content": 1}],
        [{"content": {"parts": [{"functionCall": {"name": "a", "partialArgs": 5}}]}}],
        [{"content": {"parts": [1, {"functionCall": 2}]}}],
        [7],
    ],
)
def test_candidates_that_are_none_break_nothing(candidates):
    GeminiParts().mend({"candidates": candidates})


@pytest.mark.parametrize("usage", [None, 7, {}, {"input_tokens": "7", "output_tokens": 1}, {"input_tokens": 7}])
def test_numbers_of_tokens_that_are_none_are_left_out(usage):
    ended = ResponsesEvents().chunk({"type": "response.completed", "response": {"usage": usage}})
    assert "usage" not in ended
    assert (
        chat_chunks.usage_of(7, None) is chat_chunks.usage_of(float("nan"), 7) is chat_chunks.usage_of(7, float("inf")) is None
    )


def test_a_call_that_comes_at_once_in_the_responses_interface_has_its_arguments():
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_0", "name": "look", "arguments": '{"a":1}'}
    events = ResponsesEvents()
    chunk = events.chunk({"type": "response.output_item.done", "output_index": 2, "item": item})
    (call,) = chunk["choices"][0]["delta"]["tool_calls"]
    assert (call["index"], call["id"], call["function"]) == (0, "call_0", {"name": "look", "arguments": '{"a":1}'})


@pytest.mark.parametrize(
    ("kind", "details", "reason"),
    [
        ("response.incomplete", {"reason": "max_output_tokens"}, "max_output_tokens"),
        ("response.incomplete", None, "incomplete"),
        ("response.failed", None, "failed"),
        ("response.completed", None, "stop"),
    ],
)
def test_how_a_response_ended_is_said_in_its_own_word(kind, details, reason):
    chunk = ResponsesEvents().chunk({"type": kind, "response": {"incomplete_details": details}})
    assert chunk["choices"][0]["finish_reason"] == reason


def test_who_made_a_call_is_kept_beside_it():
    blocks = AnthropicBlocks()
    block = {"type": "tool_use", "id": "toolu_1", "name": "roll", "input": {"a": 1}, "caller": {"type": "code", "tool_id": "s"}}
    for event in anthropic_blocks.in_deltas({"type": "content_block_start", "index": 0, "content_block": block}):
        blocks.add(event, 10)
    kept = blocks.kept("", "", 1)
    assert kept == [{"type": "tool_use", "caller": {"type": "code", "tool_id": "s"}}]
    call = {"id": "toolu_1", "type": "function", "function": {"name": "roll", "arguments": json.dumps({"a": 1})}}
    message = {"role": "assistant", "content": None, "tool_calls": [call], "provider": {"anthropic": kept}}
    (there,) = prompt.messages([message], instructions="", route="anthropic", anthropic=True)
    assert there["provider_specific_fields"]["compaction_blocks"] == [block]


def test_a_search_that_anthropic_is_still_to_answer_goes_back_with_the_results_of_our_calls():
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search", "input": {}}
    found = {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {}}
    call = {"id": "toolu_1", "type": "function", "function": {"name": "roll", "arguments": "{}"}}
    asked = {
        "role": "assistant",
        "content": None,
        "tool_calls": [call],
        "provider": {"anthropic": [{"type": "tool_use"}, search]},
    }
    answered = {"role": "assistant", "content": "Done.", "provider": {"anthropic": [found, {"type": "text", "length": 5}]}}
    results = [{"role": "tool", "tool_call_id": "toolu_1", "name": "roll", "content": "{}"}]

    def went_back(*transcript):
        said = prompt.messages(
            [{"role": "user", "content": "hi"}, *transcript], instructions="", route="anthropic", anthropic=True
        )
        blocks = [(one.get("provider_specific_fields") or {}).get("compaction_blocks") for one in said]
        return [block for block in blocks if block is not None]

    assert went_back(asked, *results) == [[search]]
    assert [search] in went_back(asked, *results, answered)
    # and where the answer was paused and gone on with, too
    assert went_back(asked, {"role": "assistant", "content": "Hm."}) == [[search]]
    # but one that nobody has answered when the conversation has gone on does not
    assert went_back(asked, *results, {"role": "user", "content": "and?"}) == []
