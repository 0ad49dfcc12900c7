"""The agents with which a client can start conversations, as they are listed."""

from typing import Any

from pydantic import Field

from holdfast.conversation import AgentSpec, Approval, Budget, Executor, ToolSpec
from holdfast.conversation.terms.budget import Per, Spent
from holdfast.conversation.terms.money import NANOS
from holdfast.conversation.text import jsontext

from .results import Result


class ToolRow(Result):
    """One tool of an agent in a list."""

    name: str
    description: str = Field(description="What the model reads of it.")
    parameters: Any = Field(description="The JSON Schema of its arguments.")
    executor: Executor = Field(description="Who produces its results.")
    approval: Approval = Field(description="Whether a person confirms a call before it runs.")
    response_schema: Any = Field(default=None, description="The JSON Schema that an answer must fit, if there is one.")

    @classmethod
    def of(cls, spec: ToolSpec) -> "ToolRow":
        """The row of a tool."""
        return cls(
            name=spec.name,
            description=spec.description,
            parameters=jsontext.loads(spec.parameters),
            executor=spec.executor,
            approval=spec.approval,
            response_schema=None if spec.response_schema is None else jsontext.loads(spec.response_schema),
        )


class BudgetRow(Result):
    """One budget of an agent."""

    per: Per = Field(description="What it is for: each conversation, or each day of UTC.")
    cost_usd: float | None = Field(default=None, description="How many US dollars may be used; None: any number.")
    tokens: int | None = Field(default=None, description="How many tokens may be used; None: any number.")
    used_cost_usd: float | None = Field(
        default=None,
        description="How many US dollars the agent has used today, as far as prices are known; None if it is not for days.",
    )
    used_tokens: int | None = Field(default=None, description="How many tokens it has used today; None if it is not for days.")

    @classmethod
    def of(cls, budget: Budget, used: Spent | None) -> "BudgetRow":
        """The row of a budget, and what the agent has used today, if it is for days."""
        if used is None or budget.per is not Per.DAY:
            return cls(**budget.model_dump())
        return cls(**budget.model_dump(), used_cost_usd=used.nano_usd / NANOS, used_tokens=used.tokens)


class AgentRow(Result):
    """One agent in a list."""

    name: str = Field(description="The agent's name, which `start` takes.")
    model: str = Field(description="Its model, as litellm names it.")
    tools: tuple[ToolRow, ...] = Field(description="Its tools, in the order in which they are declared.")
    budgets: tuple[BudgetRow, ...] = Field(default=(), description="Its budgets: at most one for each `per`.")

    @classmethod
    def of(cls, spec: AgentSpec, used: Spent | None = None) -> "AgentRow":
        """The row of an agent, and what it has used today, if that is bounded. Its instructions are not shown."""
        tools, budgets = map(ToolRow.of, spec.tools), (BudgetRow.of(one, used) for one in spec.budgets)
        return cls(name=spec.name, model=spec.model, tools=tuple(tools), budgets=tuple(budgets))
