"""A result that is too long to be sent whole, on the real stack: its preview, and what the model reads on, over real HTTP."""

import json
from itertools import pairwise

from server_process import serving

from holdfast.conversation.window import Rule
from holdfast.testing import call

PAGE = "press the button 1500 times"


def results(body):
    return [json.loads(message["content"]) for message in body["messages"] if message["role"] == "tool"]


def names(body):
    return [tool["function"]["name"] for tool in body["tools"]]


async def test_a_model_is_sent_a_preview_and_reads_on_in_the_log(stack, client):
    text = stack.scenarios.add(
        "manual-1",
        call("manual", {"page": 7}, id="m1"),
        call("read_result", {"call": "m1", "find": PAGE}, id="m2"),
        call("read_result", {"call": "m1", "offset": 9_999_999}, id="m3"),
        "Press it 1500 times.",
    )
    conversation = await client.start("reader", text, conversation_id="manual-1")
    state = await conversation.wait(timeout_s=60)
    assert state.reply == "Press it 1500 times."

    whole, found, beyond = [json.loads(one["content"]) for one in await conversation.messages() if one["role"] == "tool"]
    assert len(whole["result"]) > 60_000
    (place,) = found["result"]["places"]
    assert (place["line"], whole["result"][place["offset"] :].startswith(PAGE)) == (1501, True)
    assert f"has {len(whole['result'])} characters" in beyond["error"]

    requests = [one.body for one in stack.model.requests]  # of others on this stack, too
    bodies = [body for body in requests if [one.get("content") for one in body["messages"][1:2]] == [text]]
    assert [names(body) for body in bodies] == [["manual"], *[["manual", "read_result"]] * 3]
    (preview,) = results(bodies[1])
    assert (preview["call"], preview["characters"]) == ("m1", len(whole["result"]))
    assert whole["result"].startswith(preview["preview"])
    for before, after in pairwise(bodies):
        assert after["messages"][: len(before["messages"])] == before["messages"]

    view = await conversation.context()
    assert [(one.rule, one.tool_call_id) for one in view.left_out] == [(Rule.PREVIEW, "m1")]
    assert [one.get("content") for one in view.messages[:7]] == [one.get("content") for one in bodies[3]["messages"][1:]]
    async with serving(stack) as server:
        told = await server("GET", "/v1/conversations/manual-1/context")
        tools = [one["tools"] for one in (await server("GET", "/v1/agents"))["items"] if one["name"] == "reader"]
    assert told == view.model_dump(mode="json")
    assert [tool["name"] for tool in tools[0]] == ["manual", "read_result"]
