"""`Stop(cost_usd=, content=, when=)`: bounds of money, of what the model says, and of the app's own functions."""

import asyncio

import pytest
from pydantic import ValidationError

from holdfast import Agent, ConfigurationError, Status, Stop, StopReason, TurnStats, tool
from holdfast.testing import Rehearsal, call, calls, say


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    if order == "none":
        raise LookupError(order)
    return f"{order} is paid"


def desk(**bounds):
    return Agent(name="desk", tools=[look_up], stop=Stop(**bounds))


def order(number, *, content=None, cost_usd=None):
    counted = {"prompt_tokens": 20, "completion_tokens": 5} | ({} if cost_usd is None else {"cost_usd": cost_usd})
    return calls(call("look_up", {"order": f"{number}"}), content=content, usage=counted)


async def stopped(agent, *script):
    """The result of a turn, whose script has more than the turn needs."""
    async with Rehearsal(agent, model=[*script, *(order(f"later {n}") for n in range(30))]) as rehearsal:
        result = await rehearsal.send("Where is it?")
        assert result.status is Status.IDLE
        return result, (await rehearsal.result()).state


# -- cost_usd ----------------------------------------------------------------------------------------------------------------


async def test_a_turn_that_has_cost_so_much_ends_before_the_calls_of_its_last_answer():
    result, state = await stopped(desk(cost_usd=0.5), order(1, cost_usd=0.3), order(2, cost_usd=0.21))
    assert (state.stopped, state.detail) == (StopReason.COST, "Stop(cost_usd=0.5): 0.51 so far")
    assert [run.ok for run in result.runs] == [True]


async def test_costs_are_added_up_exactly():
    assert sum([0.1] * 10) < 1  # as floats are
    result, state = await stopped(desk(cost_usd=1), *(order(number, cost_usd=0.1) for number in range(12)))
    assert (len(result.prompts), state.detail) == (10, "Stop(cost_usd=1): 1 so far")


async def test_answers_without_a_price_cost_nothing():
    script = [order(1), order(2, cost_usd=0.0), order(3, cost_usd=0.4), say("Done.")]
    result, state = await stopped(desk(cost_usd=0.5), *script)
    assert (result.reply, state.stopped) == ("Done.", None)


async def test_the_next_turn_may_cost_as_much_again():
    script = [order(1, cost_usd=0.6), order(2, cost_usd=0.4), say("Paid.")]
    async with Rehearsal(desk(cost_usd=0.5), model=script) as rehearsal:
        assert (await rehearsal.send("one")).state.stopped is StopReason.COST
        assert (await rehearsal.send("two")).state.stopped is None


async def test_a_turns_usage_has_the_costs_of_its_script():
    async with Rehearsal(desk(rounds=5), model=[order(1, cost_usd=0.1), order(2, cost_usd=0.2), "Done."]) as rehearsal:
        await rehearsal.send("Where is it?")
        events = [event.body for event in (await rehearsal.result()).events if event.kind == "model_answered"]
    assert [one.cost_usd for one in events] == [0.1, 0.2, None]


@pytest.mark.parametrize("cost", [-1, "dear", True, float("nan"), 10**7])
def test_a_script_whose_cost_is_none_is_refused(cost):
    with pytest.raises(ConfigurationError, match=r"model\[0\].usage.cost_usd: must be US dollars"):
        Rehearsal(desk(cost_usd=1), model=[order(1, cost_usd=cost)])


# -- content -----------------------------------------------------------------------------------------------------------------


async def test_a_text_beside_calls_that_matches_ends_the_turn():
    script = [order(1, content="I look."), order(2, content="I am not sure about this one.")]
    result, state = await stopped(desk(content="(?i)not SURE|no idea"), *script)
    assert (state.stopped, state.detail) == (StopReason.CONTENT, "Stop(content='(?i)not SURE|no idea')")
    assert result.reply == "I am not sure about this one."
    assert [run.ok for run in result.runs] == [True]


async def test_a_text_that_matches_and_asks_for_nothing_is_the_whole_reply():
    result, state = await stopped(desk(content="sure"), "I am sure.")
    assert (result.reply, state.stopped, state.detail) == ("I am sure.", None, "")


@pytest.mark.parametrize("content", ["(", "a(?=b)", r"(a)\1", "a{3000}", "(?:(?:a{50}){50}){50}"])
def test_an_expression_that_cannot_be_matched_in_linear_time_is_refused_by_the_agent(content):
    with pytest.raises(ConfigurationError, match=r"agent 'desk'.stop.content: .*leave out lookaround and backreferences"):
        desk(content=content)


# -- when --------------------------------------------------------------------------------------------------------------------


def enough(stats):
    """Say why a turn has looked up enough."""
    return f"{stats.rounds} rounds\nare enough" if stats.rounds >= 2 else None


def fails(stats):
    """Fail."""
    raise LookupError(stats.text)


async def later(stats):
    """Take its time."""
    return f"{stats}"


async def test_a_function_of_the_app_ends_the_turn_with_its_reason():
    result, state = await stopped(desk(when=enough), order(1), order(2))
    assert (state.stopped, state.detail) == (StopReason.WHEN, "Stop(when=enough): 2 rounds are enough")
    assert [run.ok for run in result.runs] == [True]


@pytest.mark.parametrize(
    ("told", "detail"),
    [
        (True, "Stop(when=judge)"),
        (" for  good ", "Stop(when=judge): for good"),
        ("x" * 1000, f"Stop(when=judge): {'x' * 300}"),
        (7, "Stop(when=judge): it returned int, which is no text"),
        ({"stop": False}, "Stop(when=judge): it returned dict, which is no text"),
    ],
    ids=str,
)
async def test_what_a_function_returns_ends_the_turn_unless_it_is_none(told, detail):
    def judge(_):
        return told

    _, state = await stopped(desk(when=[judge]), order(1))
    assert (state.stopped, state.detail) == (StopReason.WHEN, detail)


@pytest.mark.parametrize("told", [None, False, ""])
async def test_a_function_that_says_nothing_lets_the_turn_go_on(told):
    result, state = await stopped(desk(when=lambda _: told), order(1), order(2), "Done.")
    assert (result.reply, state.stopped) == ("Done.", None)


async def test_a_function_that_fails_ends_the_turn_and_the_detail_says_so():
    _, state = await stopped(desk(when=[enough, fails]), order(1))
    assert (state.stopped, state.detail) == (StopReason.WHEN, "Stop(when=fails): it failed (LookupError)")


async def test_a_function_sees_what_the_turn_has_used():
    seen = []

    def look(stats):
        seen.append(stats)

    script = [
        order("none", content="I look.", cost_usd=0.25),
        calls(call("look_up", {"order": "1"}), call("unknown", {}), usage={"prompt_tokens": 40, "completion_tokens": 10}),
        "Done.",
    ]
    async with Rehearsal(desk(when=look), model=script) as rehearsal:
        await rehearsal.send("Where is it?")
        [began_at] = [event.at for event in (await rehearsal.result()).events if event.kind == "turn_started"]
    first, second = seen
    assert first == TurnStats(
        rounds=1,
        model_calls=1,
        tokens=25,
        cost_usd=0.25,
        calls=("look_up",),
        text="I look.",
        started_at=began_at,
        at=first.at,
    )
    assert (second.rounds, second.model_calls, second.tokens, second.cost_usd) == (2, 2, 75, 0.25)
    assert (second.errors, second.calls, second.text) == (1, ("look_up", "unknown"), "")
    assert began_at <= first.at <= second.at


async def test_the_first_bound_counts_and_last_words_are_not_judged():
    seen = []

    def look(stats):
        seen.append(stats.model_calls)
        return "always"

    script = [order(1, content="sure"), order(2, content="sure")]
    result, state = await stopped(desk(content="sure", when=look, then="last_words"), *script)
    assert (state.stopped, result.reply, seen) == (StopReason.CONTENT, "sure", [])
    _, state = await stopped(desk(when=look, rounds=1, then="last_words"), order(1), order(2))
    assert (state.stopped, state.detail, seen) == (StopReason.WHEN, "Stop(when=look): always", [1])


def test_functions_that_are_none_are_refused():
    for given in (3, [None], [enough] * 9, {"a": enough}):
        with pytest.raises(ValidationError):
            Stop(when=given)
    for given in (later, "enough", lambda: None, lambda one, two: one + two):
        with pytest.raises(ConfigurationError, match=r"agent 'desk'.stop.when: .* is no plain function of the TurnStats"):
            desk(when=given)
    with pytest.raises(ConfigurationError, match="two functions are named '<lambda>'"):
        desk(when=[lambda stats: stats.text, lambda stats: stats.rounds])


def test_bounds_that_are_none_are_refused():
    for bounds in (
        {"cost_usd": 0},
        {"cost_usd": -1},
        {"cost_usd": float("nan")},
        {"cost_usd": float("inf")},
        {"cost_usd": 1e7},
        {"cost_usd": "dear"},
        {"content": ""},
        {"content": "x" * 1025},
        {"when": ()},
    ):
        with pytest.raises(ValidationError):
            Stop(**bounds)


def test_the_digest_of_a_spec_has_the_names_of_the_functions():
    by_name = {digest: name for name, digest in ((one, desk(rounds=1, when=one).spec.digest) for one in (enough, fails))}
    assert len(by_name) == 2
    assert desk(rounds=1).spec.digest not in by_name
    assert desk(rounds=1, when=[]).spec.digest == desk(rounds=1).spec.digest


async def test_a_function_that_is_async_in_disguise_is_no_text():
    async def nothing():
        await asyncio.sleep(0)

    _, state = await stopped(desk(when=lambda _: nothing()), order(1))
    assert state.detail == "Stop(when=<lambda>): it returned coroutine, which is no text"
