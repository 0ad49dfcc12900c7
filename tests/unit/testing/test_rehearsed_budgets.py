"""`Agent(budget=)`: a turn does not begin once the conversation, or the agent today, has used as much as it may."""

import re

import pytest

from holdfast import Agent, Budget, ConfigurationError, FailureReason, Status
from holdfast.testing import Rehearsal, say

DAY_S = 86_400
USED = {"prompt_tokens": 40, "completion_tokens": 2, "cost_usd": 0.3}


def desk(**budget):
    return Agent(name="desk", budget=Budget(**budget))


def said(text):
    return say(text, usage=USED)


async def test_a_conversation_answers_as_long_as_its_budget_lasts():
    async with Rehearsal(desk(cost_usd=0.5), model=[said("One."), said("Two."), said("Three.")]) as rehearsal:
        assert (await rehearsal.send("one")).reply == "One."
        assert (await rehearsal.send("two")).reply == "Two."
        third = await rehearsal.send("three")
        assert (third.status, third.state.failed) == (Status.FAILED, FailureReason.BUDGET_EXCEEDED)
        assert third.error == "this conversation has used 0.6 US dollars: its agent has Budget(cost_usd=0.5)"
        assert len(third.prompts) == 2
        fourth = await rehearsal.send("four")
        assert (fourth.state.failed, len(fourth.prompts)) == (FailureReason.BUDGET_EXCEEDED, 2)


async def test_a_budget_for_each_day_is_there_again_after_midnight():
    async with Rehearsal(desk(tokens=80, per="day"), model=[said("One."), said("Two."), said("Three.")]) as rehearsal:
        await rehearsal.send("one")
        await rehearsal.send("two")
        third = await rehearsal.send("three")
        assert third.state.failed is FailureReason.BUDGET_EXCEEDED
        assert third.error.startswith("the agent has used 84 tokens today: it has Budget(tokens=80, per='day'), until ")
        assert len(third.prompts) == 2
        ended = [event.body for event in third.events if event.kind == "turn_failed"][-1]
        assert 0 < ended.until - ended.at <= DAY_S * 1000
        await rehearsal.advance((ended.until - ended.at) / 1000)
        assert (await rehearsal.send("four")).reply == "Three."


async def test_an_agent_may_have_a_budget_for_each_conversation_and_one_for_each_day():
    both = [Budget(cost_usd=0.9), Budget(tokens=80, per="day")]
    replies = [said(word) for word in ("One.", "Two.", "Three.", "Four.")]
    async with Rehearsal(Agent(name="desk", budget=both), model=replies) as rehearsal:
        await rehearsal.send("one")
        await rehearsal.send("two")
        today = await rehearsal.send("three")
        assert today.error.startswith("the agent has used 84 tokens today: it has Budget(tokens=80, per='day'), until ")
        ended = [event.body for event in today.events if event.kind == "turn_failed"][-1]
        await rehearsal.advance((ended.until - ended.at) / 1000)
        assert (await rehearsal.send("four")).reply == "Three."
        for_good = await rehearsal.send("five")
        assert for_good.error == "this conversation has used 0.9 US dollars: its agent has Budget(cost_usd=0.9)"
        assert len(for_good.prompts) == 3


async def test_an_agent_without_a_budget_uses_what_it_uses():
    async with Rehearsal(Agent(name="desk"), model=[said("One."), said("Two.")]) as rehearsal:
        await rehearsal.send("one")
        assert (await rehearsal.send("two")).reply == "Two."


@pytest.mark.parametrize(
    ("budget", "problem"),
    [
        (5, "int is not Budget; give budget=Budget(...), or a list of them"),
        ("day", "str is not Budget; give"),
        ([Budget(tokens=1), None], "NoneType is not Budget; give"),
        ([Budget(tokens=1), Budget(cost_usd=1)], "two budgets have per='conversation'; give one of them, which may have"),
        ([Budget(tokens=n, per="day") for n in (1, 2)], "two budgets have per='day'; give"),
    ],
    ids=str,
)
def test_what_is_no_budget_or_two_for_the_same_is_refused(budget, problem):
    with pytest.raises(ConfigurationError, match=re.escape(f"agent 'desk'.budget: {problem}")):
        Agent(name="desk", budget=budget)


def test_one_budget_is_the_same_alone_and_in_a_list_and_the_order_of_two_says_nothing():
    each, day = Budget(tokens=1), Budget(cost_usd=1, per="day")
    one, two = (
        [Agent(name="desk", budget=given).spec for given in several] for several in ((each, [each]), ([each, day], (day, each)))
    )
    assert one[0].digest == one[1].digest != two[0].digest == two[1].digest
    assert two[0].budgets == (each, day)
    assert Agent(name="desk", budget=[]).spec == Agent(name="desk").spec
