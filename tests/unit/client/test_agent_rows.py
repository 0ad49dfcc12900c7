"""The rows of agents: their budgets, and what is used of them today."""

from holdfast import Agent, Budget
from holdfast.client.agents import AgentRow
from holdfast.conversation.terms.budget import Spent


def rows(budget, used=None):
    return AgentRow.of(Agent(name="desk", budget=budget).spec, used).budgets


def test_a_row_says_how_much_may_be_used_and_how_much_is_used_today():
    (found,) = rows(Budget(cost_usd=5, tokens=100, per="day"), Spent(tokens=42, nano_usd=100_000_001))
    assert (found.per, found.cost_usd, found.tokens) == ("day", 5, 100)
    assert (found.used_cost_usd, found.used_tokens) == (0.100000001, 42)


def test_a_row_of_a_budget_for_each_conversation_says_nothing_of_a_day():
    (found,) = rows(Budget(tokens=100))
    assert (found.per, found.tokens, found.used_cost_usd, found.used_tokens) == ("conversation", 100, None, None)
    assert rows(None) == ()


def test_of_two_budgets_only_the_one_for_days_says_what_is_used_today():
    conversation, day = rows([Budget(cost_usd=5, per="day"), Budget(tokens=100)], Spent(tokens=42))
    assert (conversation.per, conversation.tokens, conversation.used_tokens) == ("conversation", 100, None)
    assert (day.per, day.cost_usd, day.used_tokens) == ("day", 5, 42)
