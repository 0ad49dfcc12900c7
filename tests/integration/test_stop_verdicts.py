"""Bounds of money, of the answer's text and of the app's functions, over real HTTP and with litellm's prices."""

from model_caller import LOOKUP, Caller
from writer import finish

from holdfast.conversation import Stop, StopReason
from holdfast.conversation.records.events import TurnCompleted
from holdfast.testing import ModelServer, call, calls, say

LONG = {"prompt_tokens": 1_000_000, "completion_tokens": 100_000}
"""What costs 0.21 US dollars of the model that is asked."""


async def stopped(stop, *script, model="openai/gpt-4o-mini"):
    """The log of a turn of two answers at most, the second of which stops it if anything does."""
    with ModelServer(script=list(script)) as server:
        caller = await Caller.of(server, tools=(LOOKUP,), stop=stop, model=model)
        await caller.turn()
        await caller.writer.do(finish(caller.writer.effect_ids[0]))
        await caller.turn()
        return caller.events


def look(number, **more):
    return calls(call("lookup", {"order": number}), **more)


async def test_a_turn_ends_by_the_prices_that_litellm_knows():
    log = await stopped(Stop(cost_usd=0.42), look(7, usage=LONG), look(8, usage=LONG))
    assert isinstance(log[-1], TurnCompleted)
    assert (log[-1].stopped, log[-1].detail) == (StopReason.COST, "Stop(cost_usd=0.42): 0.42 so far")


async def test_a_model_without_a_price_costs_nothing():
    log = await stopped(Stop(cost_usd=0.000000001), look(7, usage=LONG), look(8, usage=LONG), model="openai/unheard-of")
    assert [event.stopped for event in log if isinstance(event, TurnCompleted)] == []


async def test_a_turn_ends_by_what_an_answer_says_in_a_stream():
    log = await stopped(Stop(content="no [i]dea"), look(7), look(8, content="I have no idea, so I look again."))
    assert (log[-1].stopped, log[-1].detail) == (StopReason.CONTENT, "Stop(content='no [i]dea')")


async def test_a_function_is_given_what_the_turn_used_by_the_providers_count():
    seen = []

    def enough(stats):
        seen.append(stats)
        return f"{stats.cost_usd:.2f} USD" if stats.cost_usd > 0.4 else None

    log = await stopped(Stop(when=enough), look(7, usage=LONG), look(8, usage=LONG, content="Again."))
    assert (log[-1].stopped, log[-1].detail) == (StopReason.WHEN, "Stop(when=enough): 0.42 USD")
    assert [(one.tokens, one.rounds, one.calls) for one in seen] == [(1_100_000, 1, ("lookup",)), (2_200_000, 2, ("lookup",))]
    assert seen[1].text == "Again."
    assert seen[0].started_at <= seen[0].at <= seen[1].at


async def test_last_words_follow_and_are_not_judged():
    seen = []

    def always(stats):
        seen.append(stats)
        return "always"

    with ModelServer(script=[look(7), say("I have looked.")]) as server:
        caller = await Caller.of(server, tools=(LOOKUP,), stop=Stop(when=always, then="last_words"))
        await caller.turn()
        assert caller.request.stopped == "Stop(when=always): always"
        await caller.turn()
        ended = caller.events[-1]
    assert (ended.stopped, ended.detail, len(seen)) == (StopReason.WHEN, "Stop(when=always): always", 1)
