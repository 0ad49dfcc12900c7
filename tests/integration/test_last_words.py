"""The request for last words over real HTTP and through real litellm: it says why the turn ends, and offers no tools."""

import json

import pytest
from model_caller import LOOKUP, SEARCH, Caller
from writer import finish

from holdfast.actors.worker import prompt
from holdfast.conversation import ModelReplied, Stop, StopReason
from holdfast.conversation.records.events import CallResolved, TurnCompleted
from holdfast.testing import ModelServer, call, say

CHOICE = {"tool_choice": "auto", "parallel_tool_calls": False}


async def stopped(last, *, tools=(LOOKUP,), anthropic=False, options=CHOICE):
    """A turn of one round that stops at the next one; the requests that the provider got, and the log."""
    with ModelServer(script=[call("lookup", {"order": 7}), call("lookup", {"order": 8}), last]) as server:
        stop = Stop(rounds=1, then="last_words")
        caller = await Caller.of(server, tools=tools, anthropic=anthropic, options=options, stop=stop)
        await caller.turn()
        await caller.writer.do(finish(caller.writer.effect_ids[0]))
        await caller.turn()
        assert caller.request.stopped == "Stop(rounds=1)"
        assert isinstance(await caller.turn(), ModelReplied)
        return [request.body for request in server.requests], caller.events


async def test_a_provider_of_openais_form_is_offered_no_tools():
    (first, second, last), log = await stopped(say("It is shipped."))
    assert first["tools"] == second["tools"]
    assert (second["tool_choice"], second["parallel_tool_calls"]) == ("auto", False)
    assert not last.keys() & {"tools", "tool_choice", "parallel_tool_calls"}
    assert last["messages"][: len(second["messages"])] == second["messages"]
    assert [message["role"] for message in last["messages"]] == ["user", *["assistant", "tool"] * 2, "user"]
    assert json.loads(last["messages"][-1]["content"])["bound"] == "Stop(rounds=1)"
    assert isinstance(log[-1], TurnCompleted)
    assert (log[-1].stopped, log[-2].content) == (StopReason.ROUNDS, "It is shipped.")


async def test_anthropic_is_told_that_no_tool_may_be_called_since_it_demands_the_declarations():
    (first, second, last), log = await stopped(say("It is shipped."), tools=(LOOKUP, SEARCH), anthropic=True)
    assert first["tools"] == second["tools"] == last["tools"]
    assert (second["tool_choice"]["type"], last["tool_choice"]) == ("auto", {"type": "none"})
    [*_, note] = last["messages"][-1]["content"]
    assert json.loads(note["text"])["_kind"] == "holdfast.turn_ends"
    assert log[-1].stopped is StopReason.ROUNDS


@pytest.mark.parametrize("anthropic", [False, True])
async def test_a_call_that_comes_all_the_same_gets_an_error_result(anthropic):
    _, log = await stopped(call("lookup", {"order": 9}), anthropic=anthropic, options={})
    *_, resolved, completed = log
    assert isinstance(resolved, CallResolved)
    assert "this call did not run" in resolved.content
    assert isinstance(completed, TurnCompleted)


@pytest.mark.parametrize(
    ("route", "anthropic", "said"),
    [
        ("openai", False, {}),
        ("gemini", False, {}),
        ("bedrock", False, {"tools": ["t"]}),
        ("vertex_ai", True, {"tools": ["t"], "tool_choice": "none"}),
    ],
)
def test_tools_stay_declared_where_calls_in_the_transcript_need_that(route, anthropic, said):
    kept = prompt.without_tools({"temperature": 0, **CHOICE}, ["t"], route=route, anthropic=anthropic)
    assert kept == ({"temperature": 0}, said)
    assert prompt.without_tools({}, [], route=route, anthropic=anthropic) == ({}, {})
