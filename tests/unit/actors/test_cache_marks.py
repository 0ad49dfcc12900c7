"""Where requests are marked for a provider's cache."""

import pytest

from holdfast.actors.worker.cache_marks import marked, takes_marks

SYSTEM, USER, ANSWER = ({"role": role, "content": "x"} for role in ("system", "user", "assistant"))
RESULT = {"role": "tool", "tool_call_id": "c", "content": "x"}


def asking(calls):
    return {"role": "assistant", "content": "x", "tool_calls": [{"id": "c"}] * calls}


def places(sent, tools=(), model="anthropic/claude"):
    found = marked(sent, tools, model, anthropic=model.startswith("anthropic/"))
    return [place for place, message in enumerate(found) if "cache_control" in str(message)]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ([], []),
        ([SYSTEM], [0]),
        ([USER], [0]),
        ([SYSTEM, USER], [0, 1]),
        ([SYSTEM, USER, ANSWER], [0]),
        ([SYSTEM, USER, asking(9), *[RESULT] * 9], [0, 11]),
        ([SYSTEM, USER, asking(10), *[RESULT] * 10], [0, 1, 12]),
        ([SYSTEM, USER, ANSWER, *[USER] * 19], [0, 1, 21]),
        ([SYSTEM, USER, ANSWER, {"role": "user", "content": [{"type": "text", "text": "x"}] * 19}], [0, 1, 3]),
        ([SYSTEM, USER, *[ANSWER] * 30, USER], [0, 1, 32]),
        ([SYSTEM, *[ANSWER] * 30, USER], [0, 31]),
        ([*[ANSWER] * 30, USER], [30]),
        ([SYSTEM, *[USER] * 30], [0, 30]),
    ],
)
def test_the_marks_are_behind_the_instructions_and_the_last_message_and_where_it_is_too_far_back(sent, expected):
    assert places(sent) == expected


@pytest.mark.parametrize(("of_tools", "expected"), [(1, [0, 1, 12]), (2, [0, 12]), (3, [12]), (4, [])])
def test_a_request_has_at_most_four_marks_those_of_tools_included(of_tools, expected):
    tools = [{"name": "search", "cache_control": {"type": "ephemeral"}}] * of_tools + [{"name": "lookup"}]
    assert places([SYSTEM, USER, asking(10), *[RESULT] * 10], tools) == expected


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ([SYSTEM, USER, asking(1), RESULT], [0, 1]),
        ([SYSTEM, USER, ANSWER, USER, asking(1), RESULT], [0, 1, 3]),
        ([SYSTEM, ANSWER], [0]),
        ([SYSTEM, USER, asking(1), RESULT, USER], [0, 1]),
    ],
)
def test_nova_is_marked_behind_what_people_say_and_where_that_was_before(sent, expected):
    assert places(sent, model="bedrock/eu.amazon.nova-pro-v1:0") == expected


def test_what_is_sent_is_marked_in_copies():
    sent = [SYSTEM, {"role": "user", "content": [{"type": "text", "text": "x"}]}]
    marked(sent, [], "m", anthropic=False)
    assert "cache_control" not in str(sent)


TEXT, IMAGE = {"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "https://a.example/x.png"}}


@pytest.mark.parametrize(
    ("parts", "anthropic", "expected"),
    [
        ([TEXT, TEXT, IMAGE], False, [1]),
        ([TEXT, TEXT, IMAGE], True, [2]),
        ([IMAGE], False, []),
        ([IMAGE], True, [0]),
        ([], True, []),
    ],
)
def test_behind_an_image_only_anthropics_interface_takes_a_mark(parts, anthropic, expected):
    [found] = marked([{"role": "user", "content": parts}], [], "m", anthropic=anthropic)
    assert [place for place, part in enumerate(found["content"]) if "cache_control" in part] == expected
    assert "cache_control" not in found


@pytest.mark.parametrize(
    ("model", "route", "caches", "expected"),
    [
        ("bedrock/us.anthropic.Claude-x", "bedrock", True, True),
        ("bedrock/us.anthropic.claude-x", "bedrock", None, False),
        ("bedrock/amazon.titan", "bedrock", True, False),
        ("openrouter/google/gemini", "openrouter", True, False),
        ("openai/claude", "openai", True, False),
    ],
)
def test_models_are_marked_by_their_route_and_name_and_as_the_table_says(model, route, caches, expected):
    assert takes_marks(model, route=route, anthropic=False, says=lambda *_: caches) is expected
