"""The built-in tool `read_result`: which agents have it, and which declarations are refused."""

import pytest
from pydantic import ValidationError

from holdfast import Agent, ConfigurationError, Context, tool
from holdfast.agent import InvalidArguments, Tool
from holdfast.agent.read_result import Reading, ReadResult


@tool
def search(words: str) -> str:
    """Search."""
    return words


SEARCHED = Tool(name="web_search", executor="provider", definition={"type": "web_search"})


def declared(**given):
    return Agent(**{"name": "desk", "tools": [search], "context": Context()} | given)


def test_an_agent_with_previews_has_the_tool_after_its_own():
    desk = declared()
    assert [one.name for one in desk.spec.tools] == ["search", "read_result"]
    assert isinstance(desk.tool("read_result"), ReadResult)
    assert [one.name for one in desk.tools] == ["search"]


@pytest.mark.parametrize("given", [{"context": None}, {"context": Context(preview=None)}, {"tools": []}, {"tools": [SEARCHED]}])
def test_an_agent_without_previews_has_no_such_tool(given):
    desk = declared(**given)
    assert desk.tool("read_result") is None
    assert len(desk.spec.tools) == len(desk.tools)


def test_an_agent_that_declares_no_context_has_the_spec_that_it_had():
    assert declared(context=None).spec == Agent(name="desk", tools=[search]).spec


def test_a_tool_of_ones_own_of_that_name_is_refused_where_there_are_previews():
    own = Tool(name="read_result", callback=search.callback)
    with pytest.raises(ConfigurationError, match=r"agent 'desk'\.tools: 'read_result' is the built-in .*preview=None"):
        declared(tools=[own])
    assert declared(tools=[own], context=Context(preview=None)).tool("read_result") is own
    assert declared(tools=[own], context=None).tool("read_result") is own


def test_a_budget_without_room_for_the_tool_is_refused_with_what_leaves_it_out():
    with pytest.raises(ConfigurationError, match=r"no room for messages.*Context\(preview=None\) leaves 'read_result' out"):
        declared(context=Context(budget=300))
    assert declared(context=Context(budget=300, preview=None)).spec.context.budget == 300


@pytest.mark.parametrize("tokens", [0, 99, -1, 10**9, "many"])
def test_what_is_no_bound_of_previews_is_refused(tokens):
    with pytest.raises(ValidationError):
        Context(preview=tokens)


def test_arguments_are_checked_and_have_defaults():
    reader = declared().tool("read_result")
    assert reader.reading({"call": "c1"}) == Reading("c1", 0, 4000, "")
    assert reader.reading({"call": "c1", "offset": 9, "limit": 1, "find": "x" * 200}) == Reading("c1", 9, 1, "x" * 200)
    for bad in ({}, {"offset": -1}, {"limit": 0}, {"limit": 4001}, {"find": "x" * 201}, {"call": "c" * 65}, {"line": 1}):
        with pytest.raises(InvalidArguments):
            reader.reading({"call": "c1", **bad} if bad else bad)


async def test_its_body_is_no_function_of_the_app():
    with pytest.raises(RuntimeError, match="a worker reads"):
        await declared().tool("read_result")(call="c1")
