"""What of a transcript is sent: within the budget, in whole pairs, with the beginning of the request before."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.conversation import AgentSpec, Context, Retain
from holdfast.conversation.sizes import budget_of, fixed_tokens, message_tokens
from holdfast.conversation.window import Rule, window


def spec(budget=None, **terms):
    return AgentSpec(name="desk", model="m", instructions="Help.", context=Context(budget=budget, **terms) if budget else None)


def user(words):
    return {"role": "user", "content": words}


def answer(words, **more):
    return {"role": "assistant", "content": words, **more}


def called(*ids, name="look"):
    function = {"name": name, "arguments": "{}"}
    return answer(None, tool_calls=[{"id": one, "type": "function", "function": function} for one in ids])


def result(call, words, name="look"):
    return {"role": "tool", "tool_call_id": call, "name": name, "content": json.dumps({"ok": True, "result": words})}


def sent(of, messages, reported=None):
    return window(of, messages, {place: (of.digest, tokens) for place, tokens in (reported or {}).items()})


def turns(number, size=200, *, calls=True):
    """So many turns, each with a call, and about `size` tokens each."""
    words, made = "x" * (size * 10 // 6), []
    for n in range(number):
        made.append(user(f"{n} {words}"))
        if calls:
            made += [called(f"c{n}"), result(f"c{n}", "y")]
        made.append(answer(f"{n} {words}"))
    return made


def paired(messages):
    """Whether each result follows the answer that asked for it, and each call has its result."""
    waiting = []
    for one in messages:
        if one["role"] == "tool":
            assert one["tool_call_id"] in waiting
            waiting.remove(one["tool_call_id"])
            continue
        assert not waiting
        waiting = [call["id"] for call in one.get("tool_calls", ())]
    return not waiting


def test_an_agent_without_terms_is_sent_everything():
    messages = turns(50)
    found = sent(spec(), messages)
    assert (found.messages, found.budget, found.left_out, found.fits) == (messages, None, (), True)


def test_what_fits_is_sent_whole():
    messages = turns(3)
    found = sent(spec(4000), messages)
    assert (found.messages, found.left_out) == (messages, ())
    assert found.tokens == fixed_tokens(spec(4000)) + sum(map(message_tokens, messages)) <= found.budget


def test_the_oldest_messages_go_first_and_the_window_begins_with_what_somebody_asked():
    messages = turns(60)
    found = sent(spec(4000), messages)
    assert found.fits
    assert found.messages == messages[-len(found.messages) :]
    assert found.messages[0]["role"] == "user"
    (left,) = found.left_out
    assert (left.first, left.last, left.rule) == (0, len(messages) - len(found.messages) - 1, Rule.TRUNCATED)


def test_within_a_long_turn_its_question_stays():
    messages = [user("Do it all.")]
    for n in range(100):
        messages += [called(f"c{n}"), result(f"c{n}", "z" * 300)]
    found = sent(spec(3000), messages)
    assert found.messages[0] == messages[0]
    assert paired(found.messages)
    assert found.fits
    assert found.messages[1:] == messages[-len(found.messages) + 1 :]
    assert [(one.first, one.last) for one in found.left_out] == [(1, len(messages) - len(found.messages))]


def test_the_last_messages_stay_as_long_as_they_fit():
    messages = [
        *turns(20, 50),
        user("q"),
        called("a", "b"),
        result("a", "n" * 1900),
        result("b", "n" * 1900),
        answer("m" * 1900),
    ]
    kept = sent(spec(4000, keep=4), messages)
    assert kept.messages[-5:] == messages[-5:]
    without = sent(spec(4000, keep=1), messages)
    assert without.fits
    assert len(without.messages) <= len(kept.messages)


def test_what_can_be_made_no_smaller_does_not_fit():
    found = sent(spec(1000), [*turns(3), user("w" * 10_000)])
    assert not found.fits
    assert (len(found.messages), found.tokens > found.budget) == (1, True)


@pytest.mark.parametrize("number", [1, 60])
def test_the_request_for_last_words_ends_with_their_envelope_and_is_within_the_budget(number):
    messages = turns(number)
    found = window(spec(4000), messages, {}, "Stop(rounds=2)")
    assert json.loads(found.messages[-1]["content"])["bound"] == "Stop(rounds=2)"
    assert found.messages[:-1] == messages[-len(found.messages) + 1 :]
    assert found.tokens == fixed_tokens(spec(4000)) + sum(map(message_tokens, found.messages)) <= found.budget
    assert window(spec(), messages, {}, "Stop(rounds=2)").messages == [*messages, found.messages[-1]]


def test_a_request_begins_like_the_one_before_but_where_a_step_is_taken():
    whole, of = turns(400, 60), spec(8000)
    before, steady, requests = None, 0, 0
    for place, message in enumerate(whole):
        if message["role"] != "assistant":
            continue
        found = sent(of, whole[:place])
        assert found.fits
        assert paired(found.messages)
        if before is not None:
            requests += 1
            begins = found.messages[: len(before)] == before
            steady += begins
            assert (found.cached == len(before)) is begins or not found.cached
        before = found.messages
    assert steady / requests >= 0.9


def test_results_beyond_their_number_are_stubs_and_their_pairs_stay():
    messages = []
    for n in range(40):
        messages += [user(f"{n}"), called(f"c{n}"), result(f"c{n}", "r" * 400), answer("ok")]
    of = spec(12_000, retain={"look": Retain(count=3)})
    found = sent(of, messages)
    assert len(found.messages) == len(messages)
    assert paired(found.messages)
    stubs = [one for one in found.left_out if one.rule is Rule.RETAIN]
    assert len(stubs) >= 20
    assert {one.tool_call_id for one in stubs} & {"c37", "c38", "c39"} == set()
    told = json.loads(found.messages[stubs[0].first]["content"])
    assert told["ok"] is True
    assert "Retain(count=3) of 'look'" in told["left_out"]


@pytest.mark.parametrize(
    ("terms", "most"), [(Retain(age=2), 20), (Retain(tokens=500), 20), (Retain(never=True), 40), (Retain(count=50), 40)]
)
def test_results_are_kept_by_age_and_size_or_for_ever(terms, most):
    messages = []
    for n in range(40):
        messages += [user(f"{n}"), called(f"c{n}"), result(f"c{n}", "r" * 400), answer("ok")]
    found = sent(spec(12_000, retain={"*": terms, "other": Retain(count=1)}), messages)
    whole = [one for one in found.messages if one["role"] == "tool" and "r" * 400 in one["content"]]
    assert 2 <= len(whole) <= most
    assert (len(whole) == 40) is (most == 40)


def test_a_small_result_is_no_stub():
    messages = [one for n in range(40) for one in (user("q"), called(f"c{n}"), result(f"c{n}", "1"), answer("a" * 200))]
    assert sent(spec(9000, retain={"*": Retain(count=1)}), messages).left_out == ()


def test_counts_of_the_provider_correct_the_estimates():
    messages, of = turns(30, 100), spec(8000)
    places = [place for place, one in enumerate(messages) if one["role"] == "assistant"]
    plain = sent(of, messages)
    doubled = {place: 2 * (fixed_tokens(of) + sum(map(message_tokens, messages[:place]))) for place in places[:20]}
    found = sent(of, messages, doubled)
    assert found.fits
    assert len(found.messages) < len(plain.messages)
    assert 2 * sum(map(message_tokens, found.messages)) <= budget_of(of)
    assert sent(of, messages, dict.fromkeys(places, 10**9)).messages
    others = window(of, messages, dict.fromkeys(places, ("another spec", 10**9)))
    assert others.messages == plain.messages


def test_a_paused_answer_stays_with_what_continues_it():
    paused = answer("p" * 600, finish_reason="pause_turn")
    messages = [one for n in range(20) for one in (user(f"{n}"), paused, answer(f"{n}" * 300))]
    found = sent(spec(3000), messages)
    for place, one in enumerate(found.messages):
        if one is paused:
            assert found.messages[place + 1]["role"] == "assistant"
        elif one["role"] == "assistant":
            assert found.messages[place - 1] is paused


MESSAGES = st.lists(
    st.one_of(
        st.integers(1, 900).map(lambda size: [user("u" * size)]),
        st.integers(0, 900).map(lambda size: [answer("a" * size)]),
        st.lists(st.integers(1, 900), min_size=1, max_size=4).map(
            lambda sizes: [called(*map(str, sizes)), *(result(str(size), "r" * size, name=f"t{size % 3}") for size in sizes)]
        ),
    ),
    max_size=60,
).map(lambda groups: [one for group in groups for one in group])


@settings(max_examples=100, deadline=None)
@given(MESSAGES, st.integers(400, 6000), st.integers(1, 20), st.sampled_from([None, Retain(count=1), Retain(age=1)]))
def test_whatever_is_sent_is_paired_in_order_and_within_the_budget_or_as_small_as_can_be(messages, budget, keep, terms):
    of = spec(budget, keep=keep, retain={"*": terms} if terms is not None else {})
    found = sent(of, messages)
    places = [place for one in found.left_out if one.rule is Rule.TRUNCATED for place in range(one.first, one.last + 1)]
    stubs = {one.first: one for one in found.left_out if one.rule is Rule.RETAIN}
    kept = [place for place in range(len(messages)) if place not in places]
    assert len(places) == len(set(places))
    assert len(kept) == len(found.messages)
    for place, one in zip(kept, found.messages, strict=True):
        assert one["role"] == messages[place]["role"]
        assert (one is messages[place]) is (place not in stubs)
    asked = [one for one in messages if one["role"] == "user"]
    if asked and kept and any(messages[place]["role"] == "user" for place in range(kept[-1] + 1)):
        groups = sum(one["role"] != "tool" for one in found.messages)
        assert found.fits or groups <= 2
    total = fixed_tokens(of) + sum(map(message_tokens, found.messages))
    assert total == found.tokens
