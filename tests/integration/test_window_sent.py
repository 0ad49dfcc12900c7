"""Windows over real HTTP and through real litellm: what a provider that caches prompts is sent."""

import pytest
from model_caller import LOOKUP, Caller
from recorded_streams import AWS, player
from writer import finish

from holdfast.conversation import Context
from holdfast.conversation.terms.parts import ImagePart, TextPart
from holdfast.testing import ModelServer, call

CACHED = {"type": "ephemeral"}


async def talked(server, **terms):
    """The requests of a turn with a call, and of one with an image."""
    caller = await Caller.of(server, anthropic=True, tools=(LOOKUP,))
    caller.spec = caller.spec.model_copy(update={"instructions": "Be kind.", **terms}).stored_as(caller.spec.digest)
    caller.writer.spec = caller.spec
    await caller.turn()
    await caller.writer.do(finish(caller.writer.effect_ids[0]))
    await caller.turn()
    await caller.send((TextPart.of("And this?"), ImagePart.of(b"\x89PNG\r\n\x1a\n" + b"\x00" * 8)))
    await caller.turn()
    return [request.body for request in server.requests]


def marks(body):
    """Where a request is marked: the instructions, and the place of each message."""
    found = ["system"] if any("cache_control" in one for one in body["system"]) else []
    return found + [
        place
        for place, message in enumerate(body["messages"])
        if isinstance(message["content"], list) and any("cache_control" in one for one in message["content"])
    ]


async def test_anthropic_is_told_what_of_a_window_it_may_cache():
    with ModelServer(script=[call("lookup", {"order": 7}), "shipped", "a dot"]) as server:
        first, second, third = await talked(server, context=Context(budget=9000))
    assert marks(first) == ["system", 0]
    assert marks(second) == ["system", 2]
    assert marks(third) == ["system", 4]
    assert second["messages"][2]["content"][0]["type"] == "tool_result"
    assert third["messages"][4]["content"][-1]["cache_control"] == CACHED


async def test_without_a_window_nothing_is_marked():
    with ModelServer(script=[call("lookup", {"order": 7}), "shipped", "a dot"]) as server:
        assert [marks(body) if isinstance(body["system"], list) else [] for body in await talked(server)] == [[], [], []]


def with_calls(number, results=None):
    """A transcript whose last answer asked for so many calls, each with its result."""
    ids = [f"c{one}" for one in range(number)]
    calls = [{"id": one, "type": "function", "function": {"name": "lookup", "arguments": "{}"}} for one in ids]
    results = results or ["shipped"] * number
    return [
        {"role": "user", "content": "Where are they?"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *(
            {"role": "tool", "tool_call_id": one, "name": "lookup", "content": result}
            for one, result in zip(ids, results, strict=True)
        ),
    ]


async def asked(address, transcript, model, **own):
    """The request for a model's next answer, of an agent with a window."""
    with ModelServer(script=[]) as unused:
        caller = await Caller.of(unused, tools=(LOOKUP,), model=model)
    terms = {"instructions": "Be kind.", "context": Context(budget=9000)}
    caller.spec = caller.spec.model_copy(update=terms).stored_as(caller.spec.digest)
    caller.own_options = {"api_key": "sk-test", "api_base": address.url, **own}
    await caller.call(transcript)
    return address.requests[0]


@pytest.mark.parametrize(("number", "places"), [(9, ["system", 2]), (10, ["system", 0, 2])])
async def test_a_request_that_went_on_by_many_blocks_is_marked_where_the_one_before_ended(number, places):
    async with player() as server:
        assert marks(await asked(server, with_calls(number), "anthropic/claude-sonnet-4-5")) == places


@pytest.fixture
def aws(monkeypatch):
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)


CLAUDE = "anthropic.claude-sonnet-4-5-20250929-v1:0"


def points(body):
    """Where a request to Bedrock has cache points: the instructions, and the place of each message."""
    found = ["system"] if body["system"][-1] == {"cachePoint": {"type": "default"}} else []
    return found + [
        (place, behind)
        for place, message in enumerate(body["messages"])
        for behind, block in enumerate(message["content"])
        if "cachePoint" in block
    ]


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize(
    ("model", "places"),
    [
        (f"bedrock/{CLAUDE}", ["system", (0, 1), (2, 10)]),
        (f"bedrock/converse/eu.{CLAUDE}", ["system", (0, 1), (2, 10)]),
        ("bedrock/eu.amazon.nova-pro-v1:0", ["system", (0, 1)]),
        ("bedrock/meta.llama3-1-70b-instruct-v1:0", []),
    ],
)
async def test_bedrock_has_cache_points_for_claude_and_behind_no_result_for_nova(model, places):
    async with player() as server:
        body = await asked(server, with_calls(10), model, aws_bedrock_runtime_endpoint=server.url)
    assert points(body) == places
    assert "cachePoint" not in str(body["toolConfig"])


@pytest.mark.usefixtures("aws")
async def test_bedrocks_own_interface_of_claude_has_marks():
    async with player() as server:
        body = await asked(server, with_calls(1), f"bedrock/invoke/{CLAUDE}", aws_bedrock_runtime_endpoint=server.url)
    assert marks(body) == ["system", 2]


IN_PARTS = [{"type": "text", "text": "shipped"}, {"type": "text", "text": "late"}]


@pytest.mark.parametrize("model", ["openrouter/anthropic/claude-sonnet-4.5", "databricks/databricks-claude-sonnet-4-5"])
@pytest.mark.parametrize("result", ["shipped", IN_PARTS], ids=["a text", "parts"])
async def test_claude_behind_another_interface_has_marks_in_its_parts(model, result):
    async with player() as server:
        body = await asked(server, with_calls(1, [result]), model)
    system, user, *_, told = body["messages"]
    assert system["content"][-1]["cache_control"] == told["content"][-1]["cache_control"] == CACHED
    assert "cache_control" not in str(user)
    assert str(body).count("cache_control") == 2


@pytest.mark.parametrize(
    "model",
    [
        "openrouter/openai/gpt-4o",
        "openrouter/anthropic/claude-2",
        "databricks/databricks-gpt-5",
        "dashscope/qwen3.7-max",
        "openai/gpt-4o",
    ],
)
async def test_models_that_take_no_marks_are_sent_none(model):
    async with player() as server:
        body = await asked(server, with_calls(10), model)
    assert "cache_control" not in str(body)
    assert body["messages"][0] == {"role": "system", "content": "Be kind."}
