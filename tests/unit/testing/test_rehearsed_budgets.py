"""`Agent(budget=)`: a turn does not begin once the conversation, or the agent today, has used as much as it may."""

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


async def test_an_agent_without_a_budget_uses_what_it_uses():
    async with Rehearsal(Agent(name="desk"), model=[said("One."), said("Two.")]) as rehearsal:
        await rehearsal.send("one")
        assert (await rehearsal.send("two")).reply == "Two."


def test_a_budget_of_another_class_is_refused():
    with pytest.raises(ConfigurationError, match=r"agent 'desk'.budget: int is not Budget"):
        Agent(name="desk", budget=5)
