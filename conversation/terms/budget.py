"""How much the conversations of an agent may use before no further turn begins."""

from enum import StrEnum
from typing import Annotated, NamedTuple, Self

from pydantic import Field, model_validator

from holdfast.conversation.record import Record

from .money import MOST_USD, NANOS

DAY_MS = 86_400_000
MOST_TOKENS = 10**12
"""The largest budget of tokens."""


class Per(StrEnum):
    """What a budget is for, in the order in which budgets are judged."""

    CONVERSATION = "conversation"  # each conversation of the agent, for as long as it lasts
    DAY = "day"  # all conversations of the agent together, and each day of UTC


class Spent(Record):
    """What answers of models have used.

    Attributes:
        tokens: The tokens of requests and answers, as far as providers counted them.
        nano_usd: What they have cost in billionths of a US dollar, as far as prices are known.
    """

    tokens: int = 0
    nano_usd: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        """Both together."""
        return Spent(tokens=self.tokens + other.tokens, nano_usd=self.nano_usd + other.nano_usd)


class DaySpent(NamedTuple):
    """What an agent has used on a day of UTC, which is counted from 1970 on."""

    day: int
    spent: Spent


class Exceeded(NamedTuple):
    """A budget that is used up: in words, and until when (ms UTC; 0: for good)."""

    said: str
    until: int


class Budget(Record):
    """How much may be used before no further turn begins; a turn that has begun goes on.

    Attributes:
        cost_usd: So many US dollars, by litellm's prices, as far as these are known.
        tokens: So many tokens of requests and answers, as far as providers count them.
        per: For which conversations, and how long: `"conversation"`, or `"day"` (see `Per`).
    """

    cost_usd: Annotated[float, Field(ge=1 / NANOS, le=MOST_USD, allow_inf_nan=False)] | None = None
    tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None
    per: Per = Per.CONVERSATION

    @model_validator(mode="after")
    def _means_something(self) -> Self:
        if self.cost_usd is None and self.tokens is None:
            raise ValueError("give cost_usd or tokens")
        return self

    def over(self, spent: Spent, today: DaySpent | None) -> Exceeded | None:
        """What is used up of it if the conversation has used so much, and its agent today; None if something is left."""
        if self.per is Per.CONVERSATION:
            return self.exceeded(spent)
        return None if today is None else self.exceeded(today.spent, today.day)

    def exceeded(self, spent: Spent, day: int = 0) -> Exceeded | None:
        """What is used up of it, on a day (since 1970) if it is for days; None if something is left."""
        if self.cost_usd is not None and spent.nano_usd >= round(NANOS * self.cost_usd):
            bound, used = f"cost_usd={self.cost_usd:.12g}", f"{spent.nano_usd / NANOS:.12g} US dollars"
        elif self.tokens is not None and spent.tokens >= self.tokens:
            bound, used = f"tokens={self.tokens}", f"{spent.tokens} tokens"
        else:
            return None
        if self.per is Per.CONVERSATION:
            return Exceeded(f"this conversation has used {used}: its agent has Budget({bound})", 0)
        words = f"the agent has used {used} today: it has Budget({bound}, per='day'), until midnight (UTC)"
        return Exceeded(words, (day + 1) * DAY_MS)
