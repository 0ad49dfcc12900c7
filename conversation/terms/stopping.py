"""When a turn is to end though its model would go on."""

from enum import StrEnum
from typing import Annotated, Self, cast

from pydantic import Field, model_validator

from holdfast.conversation.record import Record

from .money import MOST_USD, NANOS
from .stages import Seconds
from .turn_stats import TurnFunction, TurnFunctions, When

MOST_ANSWERS = 16
"""How many answers back a repeated call is looked for."""

MOST_COMPARED = 16
"""How many calls of an answer are compared with those of others."""

MOST_COUNTED = 1_000_000_000
"""The largest bound of what is counted."""

LONGEST_CONTENT = 1024
"""The most characters of an expression that an answer's text is searched for."""
LIMIT_TOOL = "holdfast.limit"
"""The tool of the calls by which a turn asks whether it may go on. No tool that is declared can have this name."""

_Count = Annotated[int, Field(ge=1, le=MOST_COUNTED)]


class Then(StrEnum):
    """What follows when a turn reaches a bound of its agent's `Stop`."""

    END = "end"  # the turn is completed with the model's last answer
    LAST_WORDS = "last_words"  # the model is called once more, without tools, and the turn is completed with that answer
    ASK = "ask"  # a person says whether it goes on for as much again, or ends


class Stop(Record):
    """When a turn ends though its model would go on: as soon as one of these is reached. It is then completed, not failed.

    Attributes:
        rounds: The model asks for calls after so many rounds of them.
        tokens: The turn's requests and answers have so many tokens together, as far as the provider counts them.
        cost_usd: The turn's answers have cost so many US dollars, as far as their prices are known.
        errors: So many results in a row have failed.
        tool: A call of this tool has its result.
        content: The model asks for calls, and the text of that answer matches this regular expression somewhere.
        loop: The model asks for a call that it has asked for, with the same arguments, in one of so many answers before.
        when: One of the app's own functions says so: each is given the `TurnStats`, and returns the reason as a text, or None.
        timeout_s: The turn has gone on for so many seconds, those left out in which it waits for people (see `waits`).
        waits: Whether the seconds count in which a call waits for a person or a client, whatever else runs then.
        then: What follows: `"end"`; `"last_words"`, one more model call without tools; `"ask"`, a question to a person (see
            `Then`).
    """

    rounds: _Count | None = None
    tokens: _Count | None = None
    cost_usd: Annotated[float, Field(ge=1 / NANOS, le=MOST_USD, allow_inf_nan=False)] | None = None
    errors: _Count | None = None
    tool: str | None = Field(default=None, min_length=1, max_length=64)
    content: str | None = Field(default=None, min_length=1, max_length=LONGEST_CONTENT)
    loop: Annotated[int, Field(ge=1, le=MOST_ANSWERS)] | None = None
    timeout_s: Seconds | None = None
    waits: bool = False
    then: Then = Then.END
    when: Annotated[When, TurnFunctions] = ()

    @model_validator(mode="after")
    def _means_something(self) -> Self:
        counted = (self.rounds, self.tokens, self.cost_usd, self.errors, self.loop, self.timeout_s)
        if all(bound is None for bound in (*counted, self.tool, self.content)) and not self.when:
            raise ValueError("give rounds, tokens, cost_usd, errors, tool, content, loop, when or timeout_s")
        if self.waits and self.timeout_s is None:
            raise ValueError("waits is about timeout_s: give that, too")
        return self

    @property
    def functions(self) -> tuple[TurnFunction, ...]:
        """The app's own functions; without the functions themselves in a stored spec."""
        return cast("tuple[TurnFunction, ...]", self.when)
