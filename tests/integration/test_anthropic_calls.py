"""Model calls to a server that speaks Anthropic's stream: what the provider executed and signed goes back as it came."""

import json

import pytest
from model_caller import LOOKUP, SEARCH, Caller
from writer import finish

from holdfast.actors.worker import failover
from holdfast.conversation import FailureReason, ModelFailed, ModelReplied
from holdfast.conversation.records.events import ModelAnswered, TurnCompleted, TurnFailed
from holdfast.testing import ModelServer, blocks, call, events

THINKING = {"type": "thinking", "thinking": "I should search, then look the order up.", "signature": "c2lnbmVk"}
SEALED = {"type": "redacted_thinking", "data": "c2VhbGVk"}
SEARCHED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "holdfast"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "ZW5j", "page_age": None}
    ],
}
CITATION = {
    "type": "web_search_result_location",
    "url": "https://a.example",
    "title": "A",
    "encrypted_index": "aW5k",
    "cited_text": "It holds.",
}
CITED = {"type": "text", "text": "It holds fast.", "citations": [CITATION]}
PLAIN = {"type": "text", "text": "Let me see. "}
USED = {"type": "tool_use", "id": "toolu_1", "name": "lookup", "input": {"order": 7}}
WHOLE = [THINKING, SEALED, PLAIN, SEARCHED, FOUND, CITED, USED]


@pytest.fixture(autouse=True)
def no_delay(monkeypatch):
    monkeypatch.setattr(failover, "FIRST_DELAY_S", 0.0)


async def claude(server, **more):
    return await Caller.of(server, anthropic=True, tools=(LOOKUP, SEARCH), **more)


async def finish_runs(caller, content='{"ok":true,"result":"shipped"}'):
    for effect_id in caller.writer.effect_ids:
        await caller.writer.do(finish(effect_id, content=content))


async def test_what_the_provider_executed_is_no_call_of_ours_and_goes_back_as_it_came():
    with ModelServer(script=[blocks(WHOLE, stop_reason="tool_use"), "Done."]) as server:
        caller = await claude(server)
        # when the provider has searched in its answer, which thinks, cites and calls a tool of ours too
        outcome = await caller.turn()
        # then one call is ours, and the model is not told that it may not search
        assert isinstance(outcome, ModelReplied), outcome
        assert [(one.tool_call_id, one.name, one.arguments) for one in outcome.calls] == [("toolu_1", "lookup", '{"order": 7}')]
        assert (outcome.content, outcome.reasoning) == ("Let me see. It holds fast.", THINKING["thinking"])
        assert outcome.finish_reason == "tool_calls"
        # and when the model is called with the result
        await finish_runs(caller)
        await caller.turn()
        # then the provider gets the very blocks back, in their order, before the result
        assert [message["role"] for message in caller.sent()] == ["user", "assistant", "user"]
        assert caller.sent()[1]["content"] == WHOLE
        assert caller.sent()[2]["content"][0]["tool_use_id"] == "toolu_1"
        assert isinstance(caller.events[-1], TurnCompleted)


async def test_a_search_alone_ends_the_turn_with_one_model_call():
    with ModelServer(script=[blocks([SEARCHED, FOUND, CITED]), "Again."]) as server:
        caller = await claude(server)
        await caller.turn()
        assert isinstance(caller.events[-1], TurnCompleted)
        assert len(server.requests) == 1
        # and the next turn sends it back
        await caller.send()
        await caller.turn()
        assert caller.sent()[1]["content"] == [SEARCHED, FOUND, CITED]


async def test_a_hosted_search_is_declared_to_the_provider_as_it_was_written():
    with ModelServer(script=["ok"]) as server:
        await (await claude(server)).turn()
        declared = server.requests[0].body["tools"]
    assert {"type": "web_search_20250305", "name": "web_search", "max_uses": 3} in declared


async def test_signed_thinking_goes_back_before_the_call_that_it_led_to():
    with ModelServer(script=[blocks([THINKING, USED], stop_reason="tool_use"), "Done."]) as server:
        caller = await claude(server, options={"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4096})
        await caller.turn()
        await finish_runs(caller)
        await caller.turn()
        assert caller.sent()[1]["content"] == [THINKING, USED]
    kinds = {kind: "".join(one[4] for one in caller.live if one[0] == kind) for kind in ("text_delta", "reasoning_delta")}
    assert kinds == {"text_delta": "Done.", "reasoning_delta": THINKING["thinking"]}


async def test_the_texts_of_an_answer_are_kept_once():
    thinking = THINKING | {"thinking": "t" * 300_000}
    with ModelServer(script=[blocks([thinking, {"type": "text", "text": "x" * 300_000}]), "ok"]) as server:
        caller = await claude(server, reply_bytes=700_000)
        outcome = await caller.turn()
        assert isinstance(outcome, ModelReplied), outcome
        assert len(outcome.provider) < 500
        assert isinstance(caller.events[-1], TurnCompleted)
        await caller.send()
        await caller.turn()
        assert caller.sent()[1]["content"] == [thinking, {"type": "text", "text": "x" * 300_000}]


async def test_a_plain_answer_has_nothing_that_only_the_provider_reads():
    with ModelServer(script=[blocks([PLAIN, USED], stop_reason="tool_use"), "ok"]) as server:
        caller = await claude(server)
        outcome = await caller.turn()
        assert isinstance(outcome, ModelReplied)
        assert (outcome.provider, outcome.reasoning) == (None, None)


async def test_what_anthropic_reads_is_not_sent_to_another_provider():
    with ModelServer(script=[blocks([THINKING, SEARCHED, FOUND, CITED]), "ok"]) as server:
        caller = await claude(server)
        await caller.turn()
        elsewhere = await Caller.of(server)
        elsewhere.writer = caller.writer
        elsewhere.writer.spec = elsewhere.spec
        await elsewhere.send()
        await elsewhere.turn()
        assert elsewhere.sent()[1] == {"role": "assistant", "content": "It holds fast."}


EVENTS = 3 * len(WHOLE) + 10
"""At most so many events have the texts and inputs in them before the provider says how the answer ends."""


@pytest.mark.parametrize("after_chunks", range(0, EVENTS, 3))
@pytest.mark.parametrize("clean", [True, False])
async def test_a_stream_cut_anywhere_is_called_again(after_chunks, clean):
    with ModelServer(script=[blocks(WHOLE, stop_reason="tool_use")]) as server:
        (server.end_stream if clean else server.break_connection)(after_chunks=after_chunks)
        caller = await claude(server)
        outcome = await caller.call()
        assert isinstance(outcome, ModelReplied), outcome
        assert [one.arguments for one in outcome.calls] == ['{"order": 7}']
        assert len(server.requests) == 2


async def test_no_reason_at_the_end_is_no_end():
    with ModelServer(script=[blocks([PLAIN], stop_reason=None), "whole"]) as server:
        caller = await claude(server)
        outcome = await caller.call()
        assert isinstance(outcome, ModelReplied)
        assert (outcome.content, len(server.requests)) == ("whole", 2)


@pytest.mark.parametrize(
    ("stop_reason", "kept"),
    [
        *(("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"), ("refusal", "content_filter")),
        *(("model_context_window_exceeded", "length"), ("something_new", "something_new")),
    ],
)
async def test_anthropics_reasons_are_told_apart(stop_reason, kept):
    with ModelServer(script=[blocks([PLAIN], stop_reason=stop_reason)]) as server:
        outcome = await (await claude(server)).call()
        assert isinstance(outcome, ModelReplied)
        assert outcome.finish_reason == kept


async def test_an_answer_that_its_provider_paused_goes_on_where_it_stood():
    with ModelServer(script=[blocks([PLAIN, SEARCHED], stop_reason="pause_turn"), blocks([FOUND, CITED]), "Bye."]) as server:
        caller = await claude(server)
        # when the provider pauses in the middle of a search
        await caller.turn()
        # then the turn goes on with another model call, which has the unanswered search at its end
        assert isinstance(caller.events[-1], ModelAnswered)
        await caller.turn()
        assert caller.sent()[-1] == {
            "role": "assistant",
            "content": [PLAIN | {"text": "Let me see."}, SEARCHED],
        }  # litellm's strip
        assert isinstance(caller.events[-1], TurnCompleted)
        # and later calls have both parts as the one message that they are
        await caller.send()
        await caller.turn()
        assert caller.sent()[1] == {"role": "assistant", "content": [PLAIN, SEARCHED, FOUND, CITED]}


async def test_an_answer_that_is_paused_again_and_again_ends_at_the_limit_of_model_calls():
    with ModelServer(script=lambda _: blocks([PLAIN], stop_reason="pause_turn")) as server:
        caller = await claude(server, max_model_calls=3)
        for _ in range(3):
            await caller.turn()
        assert isinstance(caller.events[-1], TurnFailed)
        assert caller.events[-1].reason is FailureReason.MAX_MODEL_CALLS


async def test_of_an_answer_that_was_cut_off_only_what_is_complete_goes_back():
    unsigned = {"type": "thinking", "thinking": "and now", "signature": ""}
    with ModelServer(script=[blocks([THINKING, PLAIN, SEARCHED, unsigned], stop_reason="max_tokens"), "Bye."]) as server:
        caller = await claude(server)
        await caller.turn()
        await caller.send()
        await caller.turn()
        assert caller.sent()[1] == {"role": "assistant", "content": [THINKING, PLAIN]}


@pytest.mark.parametrize(
    ("limits", "content", "reason"),
    [
        ({"reply_bytes": 2000}, [SEARCHED, FOUND | {"content": "x" * 4000}], FailureReason.REPLY_BYTES),
        ({"reply_bytes": 2000}, [THINKING | {"signature": "x" * 4000}], FailureReason.REPLY_BYTES),
        ({"reply_bytes": 2000}, [{"type": "text", "text": "x" * 4000}], FailureReason.REPLY_BYTES),
        ({"max_calls": 2}, [USED | {"id": f"toolu_{n}"} for n in range(3)], FailureReason.MAX_CALLS),
    ],
    ids=["a-result", "a-signature", "text", "calls"],
)
async def test_what_only_the_provider_reads_is_bounded_too(limits, content, reason):
    with ModelServer(script=[blocks(content)]) as server:
        outcome = await (await claude(server, **limits)).call()
        assert isinstance(outcome, ModelFailed), outcome
        assert (outcome.reason, len(server.requests)) == (reason, 1)


async def test_searches_do_not_count_against_the_limit_of_calls():
    searches = [
        part for n in range(3) for part in (SEARCHED | {"id": f"srvtoolu_{n}"}, FOUND | {"tool_use_id": f"srvtoolu_{n}"})
    ]
    with ModelServer(script=[blocks([*searches, USED], stop_reason="tool_use")]) as server:
        outcome = await (await claude(server, max_calls=1)).call()
        assert isinstance(outcome, ModelReplied), outcome
        assert len(outcome.calls) == 1


async def test_an_abandoned_stream_of_anthropics_is_closed():
    # given a server that has said too much and then says nothing for an hour
    with ModelServer(script=[blocks([{"type": "text", "text": "x" * 9000}])]) as server:
        server.slow(between_chunks_s=3600)
        caller = await claude(server, model_timeout_s=0.5)
        outcome = await caller.call()
        assert isinstance(outcome, ModelFailed)
        assert outcome.reason is FailureReason.MODEL_TIMEOUT
        # then nobody is connected to it any more
        await server.idle()  # within its deadline


async def test_a_message_in_the_openai_format_is_answered_in_anthropics_too():
    with ModelServer(script=[call("lookup", {"order": 7}, id="toolu_9")]) as server:
        outcome = await (await claude(server)).call()
        assert isinstance(outcome, ModelReplied)
        assert [(one.tool_call_id, one.arguments) for one in outcome.calls] == [("toolu_9", '{"order": 7}')]


async def test_an_event_in_two_lines_is_taken_as_litellm_understands_it():
    # given a last event in two lines, which litellm puts together, after thinking that cannot be kept with its gaps
    def line(event):
        return f"data: {json.dumps(event)}\n\n"

    last = json.dumps({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}})
    frames = [
        line({"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1}}}),
        line(
            {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}
        ),
        line({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
        line({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        line({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Done."}}),
        "data: " + last.replace(", ", ",\ndata: ", 1) + "\n\n",
    ]
    with ModelServer(script=[events(*frames)]) as server:
        outcome = await (await claude(server)).call()
        # then the answer is whole on litellm's word
        assert isinstance(outcome, ModelReplied), outcome
        assert (outcome.content, outcome.reasoning, outcome.provider, len(server.requests)) == ("Done.", "hm", None, 1)


async def test_what_a_cache_had_is_part_of_the_requests_tokens_and_costs_less():
    used = {"input_tokens": 10, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 0, "output_tokens": 1}
    frames = [
        {"type": "message_start", "message": {"id": "m", "content": [], "usage": used}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Done."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]
    with ModelServer(script=[events(*frames)]) as server:
        outcome = await (await claude(server)).call()
    assert (outcome.input_tokens, outcome.cached_tokens, outcome.output_tokens) == (910, 900, 4)
    assert outcome.cost_usd == pytest.approx(10 * 3e-6 + 900 * 0.3e-6 + 4 * 15e-6, abs=1e-9)


async def test_a_call_that_was_cut_off_goes_back_behind_its_thinking_with_a_word_as_its_result():
    half = {"type": "input_json_delta", "partial_json": '{"order": '}
    frames = [
        {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 10, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2lnbmVk"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": USED | {"input": {}}},
        {"type": "content_block_delta", "index": 1, "delta": half},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]
    with ModelServer(script=[events(*frames), blocks([PLAIN])]) as server:
        caller = await claude(server)
        await caller.turn()
        await caller.turn()
        assert isinstance(caller.events[-1], TurnCompleted)
        asked, told = caller.sent()[-2:]
        assert [block["type"] for block in asked["content"]] == ["thinking", "tool_use"]
        assert (asked["content"][1]["input"], asked["content"][0]["signature"]) == ({}, "c2lnbmVk")
        assert "Take smaller steps" in json.dumps(told["content"])


STRUCTURED = {
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "order", "schema": {"type": "object", "properties": {"order": {"type": "integer"}}}},
    }
}
OLD = "anthropic/claude-sonnet-4-20250514"
"""A model without structured output of its own: litellm has it call a tool, and makes text of the call."""
FORMATTED = {"type": "tool_use", "id": "toolu_1", "name": "json_tool_call", "input": {"order": 7}}


@pytest.mark.parametrize("before", [[], [PLAIN]], ids=["alone", "after-text"])
async def test_a_structured_answer_of_a_model_that_answers_it_with_a_call_is_text(before):
    with ModelServer(script=[blocks([*before, FORMATTED], stop_reason="tool_use"), "Never."]) as server:
        caller = await Caller.of(server, anthropic=True, model=OLD, options=STRUCTURED)
        outcome = await caller.turn()
        assert isinstance(outcome, ModelReplied), outcome
        assert "json_tool_call" in [tool["name"] for tool in server.requests[0].body["tools"]]
        assert outcome.content.endswith('{"order": 7}')
        assert (outcome.calls, outcome.finish_reason, len(server.requests)) == ((), "stop", 1)
        assert isinstance(caller.events[-1], TurnCompleted)


async def test_a_structured_answer_that_was_cut_is_called_again():
    with ModelServer(script=[blocks([FORMATTED], stop_reason="tool_use")]) as server:
        server.end_stream(after_chunks=4)
        caller = await Caller.of(server, anthropic=True, model=OLD, options=STRUCTURED)
        outcome = await caller.call()
        assert isinstance(outcome, ModelReplied), outcome
        assert (outcome.content, len(server.requests)) == ('{"order": 7}', 2)


async def test_a_call_that_is_announced_and_missing_is_asked_for_again_whatever_format_was_wanted():
    with ModelServer(script=[blocks([PLAIN], stop_reason="tool_use"), blocks([FORMATTED], stop_reason="tool_use")]) as server:
        caller = await Caller.of(server, anthropic=True, model=OLD, options=STRUCTURED)
        outcome = await caller.call()
        assert isinstance(outcome, ModelReplied), outcome
        assert (outcome.content, len(server.requests)) == ('{"order": 7}', 2)


async def test_a_call_of_ours_beside_a_structured_answer_is_a_call():
    with ModelServer(script=[blocks([USED], stop_reason="tool_use")]) as server:
        caller = await Caller.of(server, anthropic=True, model=OLD, options=STRUCTURED, tools=(LOOKUP,))
        outcome = await caller.call()
        assert isinstance(outcome, ModelReplied), outcome
        assert ([one.name for one in outcome.calls], outcome.finish_reason) == (["lookup"], "tool_calls")
