"""Windows over real HTTP and through real litellm: what a provider that caches prompts is sent."""

from model_caller import LOOKUP, Caller
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
