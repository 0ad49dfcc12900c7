"""Replies in a shape, over real HTTP and through litellm: OpenAI's form, Anthropic's form, fallbacks."""

import json

import pytest
from model_caller import LOOKUP, Caller
from pydantic import BaseModel, field_validator
from writer import finish

from holdfast.agent.reply import Reply
from holdfast.conversation.log.transcript import reply_of
from holdfast.conversation.records.events import TurnCompleted, TurnFailed
from holdfast.conversation.terms.models import ModelSpec
from holdfast.conversation.terms.stopping import Stop
from holdfast.testing import ModelServer, call, say


class Order(BaseModel):
    number: int
    note: str = ""

    @field_validator("number")
    @classmethod
    def _known(cls, number):
        if number > 100:
            raise ValueError("no such order")
        return number


SHAPE = Reply(Order, "reply")
STRICT = {
    "type": "object",
    "properties": {"number": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["number", "note"],
    "additionalProperties": False,
}
FITS = '{"number": 7, "note": "a"}'
UNKNOWN = "openai/our-own-model"
"""A model of which litellm's table says nothing."""
OLD = "anthropic/claude-sonnet-4-20250514"
"""A model without structured output of its own, for which litellm would force a call."""


def value(caller):
    return json.loads(reply_of(caller.events[-2 if caller.events[-2].kind == "model_answered" else -3]))


def offered(server, number=-1):
    tools = server.requests[number].body.get("tools", [])
    return [one["function"]["name"] if "function" in one else one["name"] for one in tools]


@pytest.mark.parametrize("tools", [(), (LOOKUP,)], ids=["alone", "beside-tools"])
async def test_openais_models_are_asked_for_structured_output_and_told_what_is_wrong(tools):
    with ModelServer(script=[say('{"number": 700, "note": ""}'), say(FITS)]) as server:
        caller = await Caller.of(server, reply=SHAPE, tools=tools)
        await caller.turn()
        await caller.turn()
        assert isinstance(caller.events[-1], TurnCompleted)
        assert value(caller) == {"number": 7, "note": "a"}
        for request in server.requests:
            asked = request.body["response_format"]
            assert (asked["type"], asked["json_schema"]["schema"]) == ("json_schema", STRICT)
            assert asked["json_schema"]["strict"] is True
        assert offered(server) == ["lookup"] * len(tools)
        answered, told = caller.sent()[-2:]
        assert (answered["role"], told["role"], set(told)) == ("assistant", "user", {"role", "content"})
        assert "no such order" in json.loads(told["content"])["error"]
        # and the text came as text
        assert FITS in "".join(one[4] for one in caller.live if one[0] == "text_delta")


async def test_a_model_without_it_is_offered_a_call_whose_pair_goes_back_whole():
    script = [call("final_answer", {"number": 700}, id="c1"), call("final_answer", {"number": 7}, id="c2"), say("Bye.")]
    with ModelServer(script=script) as server:
        caller = await Caller.of(server, reply=SHAPE, tools=(LOOKUP,), model=UNKNOWN)
        await caller.turn()
        await caller.turn()
        assert isinstance(caller.events[-1], TurnCompleted)
        assert value(caller) == {"number": 7}
        assert (offered(server), "response_format" in server.requests[-1].body) == (["lookup", "final_answer"], False)
        asked, told = caller.sent()[-2:]
        assert (asked["tool_calls"][0]["id"], told["role"], told["tool_call_id"]) == ("c1", "tool", "c1")
        assert "no such order" in told["content"]
        await caller.send()
        await caller.turn()
        assert [one["role"] for one in caller.sent()[-3:]] == ["assistant", "tool", "user"]
        assert json.loads(caller.sent()[-2]["content"]) == {"ok": True, "result": None}


async def test_claude_is_asked_for_structured_output_of_its_own():
    with ModelServer(script=[say("Seven."), say(FITS)]) as server:
        caller = await Caller.of(server, anthropic=True, reply=SHAPE, tools=(LOOKUP,))
        await caller.turn()
        await caller.turn()
        assert isinstance(caller.events[-1], TurnCompleted)
        assert value(caller) == {"number": 7, "note": "a"}
        body = server.requests[-1].body
        format_ = body.get("output_format") or body["output_config"]["format"]
        assert (format_["type"], format_["schema"]["required"]) == ("json_schema", ["number", "note"])
        assert (offered(server), "tool_choice" in body) == (["lookup"], False)
        assert [one["role"] for one in body["messages"]] == ["user", "assistant", "user"]
        assert "not JSON" in json.dumps(body["messages"][-1]["content"])


async def test_an_older_claude_is_offered_the_call_and_is_not_forced_to_it():
    script = [call("final_answer", {"number": "x"}, id="c1"), call("final_answer", {"number": 7}, id="c2"), say("Bye.")]
    with ModelServer(script=script) as server:
        caller = await Caller.of(server, anthropic=True, reply=SHAPE, tools=(LOOKUP,), model=OLD)
        await caller.turn()
        await caller.turn()
        assert isinstance(caller.events[-1], TurnCompleted)
        assert value(caller) == {"number": 7}
        assert offered(server) == ["lookup", "final_answer"]
        assert not {"tool_choice", "output_format", "output_config"} & server.requests[-1].body.keys()
        used, told = caller.sent()[-2:]
        assert [one["type"] for one in (*used["content"], *told["content"])] == ["tool_use", "tool_result"]
        assert "$.number" in json.dumps(told["content"])
        await caller.send()
        await caller.turn()
        received, asked = caller.sent()[-1]["content"]
        assert (received["type"], received["tool_use_id"], asked["type"]) == ("tool_result", "c2", "text")


async def test_a_claude_that_has_called_is_offered_the_call_although_it_has_no_tools():
    script = [call("final_answer", {"number": 7}), say(FITS)]
    with ModelServer(script=script) as server:
        caller = await Caller.of(server, anthropic=True, reply=SHAPE)
        await caller.turn()  # whatever it was asked for
        assert isinstance(caller.events[-1], TurnCompleted)
        assert "tools" not in server.requests[-1].body
        await caller.send()
        await caller.turn()
        assert (offered(server), isinstance(caller.events[-1], TurnCompleted)) == (["final_answer"], True)


async def test_a_fallback_is_asked_in_its_own_way():
    with ModelServer(script=[call("final_answer", {"number": 7})]) as server:
        server.fail(503, times=1)
        own = {"api_base": server.url, "api_key": "sk-test"}
        caller = await Caller.of(server, reply=SHAPE, retries=0, fallbacks=(ModelSpec(model=UNKNOWN, retries=0),))
        caller.fallback_options = (own,)
        await caller.turn()
        assert ["response_format" in one.body for one in server.requests] == [True, False]
        assert (offered(server, 0), offered(server, 1)) == ([], ["final_answer"])
        assert value(caller) == {"number": 7}
        assert caller.events[-3].model == UNKNOWN


@pytest.mark.parametrize(("model", "anthropic"), [(OLD, True), ("openai/gpt-4o-mini", False)])
async def test_last_words_are_asked_for_without_a_shape(model, anthropic):
    calls = [call("lookup", {"order": 7}, id=f"c{number}") for number in (1, 2)]
    with ModelServer(script=[*calls, say("I have looked.")]) as server:
        stop = Stop(rounds=1, then="last_words")
        caller = await Caller.of(server, anthropic=anthropic, reply=SHAPE, tools=(LOOKUP,), model=model, stop=stop)
        await caller.turn()
        await caller.writer.do(finish())
        await caller.turn()
        await caller.turn()
        assert (caller.events[-1].kind, caller.events[-1].stopped) == ("turn_completed", "rounds")
        body = server.requests[-1].body
        assert "response_format" not in body
        assert offered(server) == (["lookup", "final_answer"] if anthropic else [])
        assert body.get("tool_choice") == ({"type": "none"} if anthropic else None)


async def test_after_two_repairs_the_turn_fails_with_its_reason():
    with ModelServer(script=["Seven.", "Seven!", "Seven?"]) as server:
        caller = await Caller.of(server, reply=SHAPE)
        for _ in range(3):
            await caller.turn()
        assert isinstance(caller.events[-1], TurnFailed)
        assert caller.events[-1].reason == "invalid_reply"


async def test_an_agent_without_a_shape_sends_what_it_sent():
    with ModelServer(script=["Seven."]) as server:
        caller = await Caller.of(server)
        await caller.turn()
        assert not {"tools", "response_format"} & server.requests[0].body.keys()
