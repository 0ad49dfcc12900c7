"""When a turn is to end though its model would go on."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from holdfast.conversation.record import Record

from .stages import Seconds

MOST_ANSWERS = 16
"""How many answers back a repeated call is looked for."""

MOST_COMPARED = 16
"""How many calls of an answer are compared with those of others."""

MOST_COUNTED = 1_000_000_000
"""The largest bound of what is counted."""

_Count = Annotated[int, Field(ge=1, le=MOST_COUNTED)]


class Then(StrEnum):
    """What follows when a turn reaches a bound of its agent's `Stop`."""

    END = "end"  # the turn is completed with the model's last answer
    LAST_WORDS = "last_words"  # the model is called once more, without tools, and the turn is completed with that answer


class Stop(Record):
    """When a turn ends though its model would go on: as soon as one of these is reached. It is then completed, not failed.

    Attributes:
        rounds: The model asks for calls after so many rounds of them.
        tokens: The turn's requests and answers have so many tokens together, as far as the provider counts them.
        errors: So many results in a row have failed.
        tool: A call of this tool has its result.
        loop: The model asks for a call that it has asked for, with the same arguments, in one of so many answers before.
        timeout_s: The turn has gone on for so many seconds, those left out in which it waits for people (see `waits`).
        waits: Whether the seconds count in which a call waits for a person or a client, whatever else runs then.
        then: What follows: `"end"`, or `"last_words"`, one more model call without tools (see `Then`).
    """

    rounds: _Count | None = None
    tokens: _Count | None = None
    errors: _Count | None = None
    tool: str | None = Field(default=None, min_length=1, max_length=64)
    loop: Annotated[int, Field(ge=1, le=MOST_ANSWERS)] | None = None
    timeout_s: Seconds | None = None
    waits: bool = False
    then: Then = Then.END

    @model_validator(mode="after")
    def _means_something(self) -> Self:
        bounds = (self.rounds, self.tokens, self.errors, self.tool, self.loop, self.timeout_s)
        if all(bound is None for bound in bounds):
            raise ValueError("give rounds, tokens, errors, tool, loop or timeout_s")
        if self.waits and self.timeout_s is None:
            raise ValueError("waits is about timeout_s: give that, too")
        return self
