"""Long results in a window: previews from their first request on, which stay what they are."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.conversation import AgentSpec, Context, Retain, ToolSpec
from holdfast.conversation.sizes import fixed_tokens, message_tokens
from holdfast.conversation.terms.context import READ_RESULT
from holdfast.conversation.window import Rule, Walk, window

LONG = "\n".join(f"row {number}" for number in range(3000))


def spec(budget=20_000, *, reads=True, **terms):
    tools = (ToolSpec(name="look"), *((ToolSpec(name=READ_RESULT),) if reads else ()))
    return AgentSpec(name="desk", model="m", tools=tools, context=Context(budget=budget, **terms))


def asked(number, words=LONG, name="look"):
    """A turn with one call, whose result is these words."""
    function = {"name": name, "arguments": "{}"}
    return [
        {"role": "user", "content": f"question {number}"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": f"c{number}", "name": name, "content": json.dumps({"ok": True, "result": words})},
        {"role": "assistant", "content": "yes"},
    ]


def talk(number, **more):
    return [one for place in range(number) for one in asked(place, **more)]


def test_a_long_result_is_a_preview_and_its_pair_stays():
    messages = talk(1)
    found = window(spec(), messages, {})
    shown = json.loads(found.messages[2]["content"])
    assert (found.messages[2]["tool_call_id"], shown["ok"], shown["call"]) == ("c0", True, "c0")
    assert LONG.startswith(shown["preview"])
    assert (shown["characters"], shown["lines"]) == (len(LONG), 3000)
    (left,) = found.left_out
    assert (left.first, left.last, left.rule, left.tool_call_id) == (2, 2, Rule.PREVIEW, "c0")
    assert left.tokens == message_tokens(messages[2]) - message_tokens(found.messages[2])
    assert found.tokens == fixed_tokens(spec()) + sum(map(message_tokens, found.messages))


def test_a_preview_is_the_same_bytes_in_each_later_request():
    messages, of = talk(60), spec(8000)
    walk, first = Walk(of), {}
    for place, message in enumerate(messages):
        walk.extend([message], {})
        found = walk.copied().window()
        assert found.fits
        for one in found.messages:
            if one["role"] == "tool":
                assert first.setdefault(one["tool_call_id"], one["content"]) == one["content"]
        if place % 40 == 0:
            assert window(of, messages[: place + 1], {}).messages == found.messages
    assert Rule.TRUNCATED in {one.rule for one in found.left_out}
    assert len(first) == 60
    assert all('"preview"' in content for content in first.values())


def test_what_would_not_fit_whole_fits_as_a_preview():
    assert window(spec(3000), talk(3), {}).fits
    assert not window(spec(3000, preview=None), talk(3)[:3], {}).fits


@pytest.mark.parametrize(
    ("of", "more"),
    [
        (spec(), {"words": "short"}),
        (spec(), {"name": READ_RESULT}),
        (spec(preview=None), {}),
        (spec(reads=False), {}),
        (spec(retain={"look": Retain(never=True)}), {}),
        (spec(preview=10_000), {}),
        (AgentSpec(name="desk", model="m", tools=spec().tools), {}),
    ],
    ids=["short", "of read_result", "none declared", "no tool to read on", "kept whole", "below the bound", "no terms"],
)
def test_a_result_is_sent_whole_if_nothing_makes_it_a_preview(of, more):
    messages = talk(1, **more)
    found = window(of, messages, {})
    assert (found.messages, found.left_out) == (messages, ())


def test_a_result_with_images_is_no_preview():
    messages = talk(1)
    picture = {"type": "image_url", "image_url": {"url": "https://a.example/x.png"}}
    messages[2]["content"] = [{"type": "text", "text": messages[2]["content"]}, picture, picture]
    assert window(spec(), messages, {}).messages == messages


def test_a_result_whose_preview_would_be_no_smaller_is_sent_whole():
    messages = talk(1, words="\x01" * 1200)
    assert message_tokens(messages[2]) > 2048
    assert window(spec(), messages, {}).messages == messages


def test_the_bound_of_a_preview_is_the_agents():
    found = window(spec(preview=100), talk(1, words="word " * 100), {})
    assert json.loads(found.messages[2]["content"])["preview"] == "word " * 20


def test_a_preview_beyond_what_retain_says_becomes_a_stub():
    of = spec(12_000, retain={"look": Retain(count=2)})
    messages = talk(30)
    found = window(of, messages, {})
    rules = [one.rule for one in found.left_out]
    assert set(rules) >= {Rule.RETAIN, Rule.PREVIEW}
    assert len({one.first for one in found.left_out}) == len(rules)
    stub = next(one for one in found.left_out if one.rule is Rule.RETAIN)
    sent = next(one for one in found.messages if one.get("tool_call_id") == stub.tool_call_id)
    whole = message_tokens(messages[stub.first])
    assert f"of about {whole} tokens" in json.loads(sent["content"])["left_out"]
    assert stub.tokens == whole - message_tokens(sent)
    assert found.tokens == fixed_tokens(of) + sum(map(message_tokens, found.messages))


def test_read_result_is_offered_from_the_first_preview_on():
    of, messages = spec(4000), [*talk(2, words="short"), *talk(1), *talk(40, words="short " * 20)]
    held = [window(of, messages[:place], {}).withheld for place in range(len(messages) + 1)]
    assert held == [READ_RESULT] * 11 + [""] * (len(messages) - 10)
    assert not [one for one in window(of, messages, {}).left_out if one.rule is Rule.PREVIEW], "the preview itself is left out"


def test_nothing_is_withheld_from_an_agent_without_previews():
    for of in (spec(preview=None), spec(reads=False), AgentSpec(name="desk", model="m", tools=spec().tools)):
        assert window(of, talk(1), {}).withheld == ""


RESULTS = st.lists(st.tuples(st.integers(0, 2000), st.sampled_from(["look", "read_result", "keep"])), max_size=25)
RETAINED = st.sampled_from([{}, {"*": Retain(count=2)}, {"look": Retain(age=1), "keep": Retain(never=True)}])


@settings(max_examples=60, deadline=None)
@given(RESULTS, RETAINED, st.integers(600, 9000), st.integers(100, 400), st.integers(1, 10))
def test_a_result_is_sent_in_one_form_then_perhaps_as_a_stub_and_in_no_other(found, retain, budget, preview, keep):
    of = spec(budget, retain=retain, preview=preview, keep=keep)
    messages = [one for n, (size, name) in enumerate(found) for one in asked(n, "w " * size, name)]
    walk, forms = Walk(of), {}
    for message in messages:
        walk.extend([message], {})
        sent = walk.copied().window()
        left = {one.tool_call_id: one for one in sent.left_out if one.tool_call_id}
        assert sent.tokens == fixed_tokens(of) + sum(map(message_tokens, sent.messages))
        for one in sent.messages:
            if one["role"] != "tool":
                continue
            seen = forms.setdefault(one["tool_call_id"], [])
            if not seen or seen[-1] != one["content"]:
                seen.append(one["content"])
            whole = next(each for each in messages if each.get("tool_call_id") == one["tool_call_id"])
            rule = left[one["tool_call_id"]].rule if one["tool_call_id"] in left else None
            assert (one is whole) is (rule is None)
            if rule is not None:
                assert left[one["tool_call_id"]].tokens == message_tokens(whole) - message_tokens(one)
            assert rule is not Rule.PREVIEW or one["name"] == "look" or (one["name"] == "keep" and "keep" not in retain)
    for seen in forms.values():
        assert len(seen) <= 2
        assert len(seen) == 1 or "left_out" in seen[1]
