"""Streams of models on the real thing: ones that end early, ones that are cut off, and what a provider executed itself."""

import pytest
from stack_fixture import runs_of

from holdfast.client import Approve, InvalidMessage, Status
from holdfast.testing import blocks, call, say

THINKING = {"type": "thinking", "thinking": "Search first.", "signature": "c2ln"}
SEARCHED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "refunds"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
REFUND = {"type": "tool_use", "id": "toolu_1", "name": "refund", "input": {"order": "A-1", "amount": 5}}


async def test_a_stream_that_ends_after_a_tools_name_runs_nothing_that_the_model_did_not_write(stack, client):
    # given a stream that ends cleanly when the tool's name is out
    text = stack.scenarios.add("early", call("refund", {"order": "A-1", "amount": 5}, id="early_1"), "Refunded.")
    stack.model.end_stream(after_chunks=2)
    conversation = await client.start("support", text, conversation_id="early")
    # when the call waits for its approval, then it has the arguments of the whole answer
    (shown,) = (await conversation.wait(timeout_s=60)).pending
    assert shown.arguments == {"order": "A-1", "amount": 5}
    receipt = await shown.resolve(Approve())
    state = await conversation.wait(after=receipt.seq, timeout_s=60)
    assert (state.status, state.reply) == (Status.IDLE, "Refunded.")
    assert [(run["order"], run["amount"]) for run in runs_of(stack, "early")] == [("A-1", 5)]


async def test_an_answer_that_was_cut_off_says_so_in_the_log_and_in_the_messages(stack, client):
    text = stack.scenarios.add("cut", say("It was shi", finish_reason="length"))
    conversation = await client.start("support", text, conversation_id="cut")
    state = await conversation.wait(timeout_s=60)
    assert (state.status, state.reply) == (Status.IDLE, "It was shi")
    assert (await conversation.messages())[-1]["finish_reason"] == "length"
    async for event in conversation.events(live=False):
        if event.kind == "turn_completed":
            assert event.data["stopped"] == "length"
            break


async def test_a_call_that_was_cut_off_is_asked_for_again_and_the_turn_sums_up_what_both_answers_used(stack, client):
    used = {"prompt_tokens": 300, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 256}}
    half = {**call("refund", '{"order": "A-2", ', id="half_1", usage=used), "finish_reason": "length"}
    text = stack.scenarios.add("half", half, say("I cannot say so much.", usage=used))
    conversation = await client.start("support", text, conversation_id="half")
    state = await conversation.wait(timeout_s=60)
    assert (state.status, state.reply) == (Status.IDLE, "I cannot say so much.")
    assert runs_of(stack, "half") == []
    (turn,) = await conversation.turns()
    assert (turn.usage.model_calls, turn.usage.input_tokens, turn.usage.cached_tokens) == (2, 600, 512)
    assert turn.usage.cost_usd > 0
    assert 0 < turn.usage.model_ms <= turn.duration_ms
    found = await conversation.usage("tool")
    assert [(row.name, row.tool_calls, row.tool_errors) for row in found.rows] == [("", 0, 0), ("refund", 1, 1)]
    assert found.total == turn.usage


async def test_one_turn_is_asked_of_the_model_that_its_message_chose_and_the_next_one_is_not(stack, client):
    text = stack.scenarios.add("chosen", "First.", "Second.", "Third.")
    conversation = await client.start("clerk", text, conversation_id="chosen")
    await conversation.wait(timeout_s=60)
    with pytest.raises(InvalidMessage, match="at most 500"):
        await conversation.send("More?", overrides={"max_tokens": 501})
    receipt = await conversation.send("More?", overrides={"model": "openai/gpt-4o", "max_tokens": 500})
    await conversation.wait(after=receipt.seq, timeout_s=60)
    receipt = await conversation.send("Still more?")
    await conversation.wait(after=receipt.seq, timeout_s=60)
    sent = [one.body for one in stack.model.requests if text in str(one.body["messages"])]
    assert [one.get("max_tokens") for one in sent] == [None, 500, None]
    assert [one["model"] for one in sent] == ["gpt-4o-mini", "gpt-4o", "gpt-4o-mini"]
    names = {row.name: row.usage.model_calls for row in (await conversation.usage()).rows}
    assert names == {"openai/gpt-4o-mini": 2, "openai/gpt-4o": 1}


async def test_what_anthropic_searched_and_thought_goes_back_to_it_after_a_person_has_approved(stack, client):
    # given an agent on Anthropic's interface whose model thinks, searches and asks for a refund in one answer
    answer = blocks([THINKING, SEARCHED, FOUND, REFUND], stop_reason="tool_use")
    text = stack.scenarios.add("search", answer, "Refunded.")
    conversation = await client.start("scholar", text, conversation_id="search")
    # when a person approves the refund, which alone is a call of ours
    (shown,) = (await conversation.wait(timeout_s=60)).pending
    assert shown.tool == "refund"
    receipt = await shown.resolve(Approve())
    state = await conversation.wait(after=receipt.seq, timeout_s=60)
    assert (state.status, state.reply) == (Status.IDLE, "Refunded.")
    # then the model was called twice, the second time with the very blocks of its answer
    sent = [request.body["messages"] for request in stack.model.requests if "system" in request.body]
    spoken = [messages for messages in sent if messages[0]["content"][0]["text"] == text]
    assert [len(messages) for messages in spoken] == [1, 3]
    assert spoken[1][1]["content"] == [THINKING, SEARCHED, FOUND, REFUND]
    # and what it thought is shown apart from what it said
    messages = await conversation.messages()
    assert messages[1]["reasoning_content"] == "Search first."
    assert messages[1]["content"] is None
