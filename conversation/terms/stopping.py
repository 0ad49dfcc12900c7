"""When a turn is to end though its model would go on."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from holdfast.conversation.record import Record

MOST_ANSWERS = 16
"""How many answers back a repeated call is looked for."""

MOST_COMPARED = 16
"""How many calls of an answer are compared with those of others."""

MOST_COUNTED = 1_000_000_000
"""The largest bound of what is counted."""

_Count = Annotated[int, Field(ge=1, le=MOST_COUNTED)]


class Stop(Record):
    """When a turn ends though its model would go on: as soon as one of these is reached. It is then completed, not failed.

    Attributes:
        rounds: The model asks for calls after so many rounds of them.
        tokens: The turn's requests and answers have so many tokens together, as far as the provider counts them.
        errors: So many results in a row have failed.
        tool: A call of this tool has its result.
        loop: The model asks for a call that it has asked for, with the same arguments, in one of so many answers before.
    """

    rounds: _Count | None = None
    tokens: _Count | None = None
    errors: _Count | None = None
    tool: str | None = Field(default=None, min_length=1, max_length=64)
    loop: Annotated[int, Field(ge=1, le=MOST_ANSWERS)] | None = None

    @model_validator(mode="after")
    def _means_something(self) -> Self:
        if all(bound is None for bound in (self.rounds, self.tokens, self.errors, self.tool, self.loop)):
            raise ValueError("give rounds, tokens, errors, tool or loop")
        return self
