"""How much of a conversation is sent to the model, and what is left out first."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, model_validator

from holdfast.conversation.record import Record
from holdfast.errors import InvalidInput

from .models import DeclaredModel, ModelChain
from .stages import Seconds

EVERY_TOOL = "*"
READ_RESULT = "read_result"
"""The built-in tool with which a model reads a result that it was sent a preview of."""
LEAST_PREVIEW = 100
"""The fewest tokens beyond which a result may become a preview: what a preview says besides the result's words needs some."""
LARGEST_BUDGET = 100_000_000
MOST_OUTPUT = 4096
"""How many tokens are kept free for an answer whose length the model options do not bound."""

Count = Annotated[int, Field(ge=1, le=LARGEST_BUDGET)]
ModelName = Annotated[str, Field(min_length=1, max_length=500)]


class Retain(Record):
    """How long the results of a tool are sent whole: each bound that is given counts. A result beyond one becomes a stub.

    Attributes:
        age: The results of so many turns, the present one included.
        count: So many results, the last ones.
        tokens: The last results, as long as they have no more tokens than this together.
        never: The results always stay whole; there is no other bound, and no preview of them.
    """

    age: Count | None = None
    count: Count | None = None
    tokens: Count | None = None
    never: bool = False

    @model_validator(mode="after")
    def _means_something(self) -> Self:
        if self.never == any(bound is not None for bound in (self.age, self.count, self.tokens)):
            raise ValueError("give age, count or tokens, or never=True alone")
        return self

    def exceeded(self, **used: int) -> str | None:
        """The first bound that a result exceeds, in words, such as `count=3`; None if it is within all.

        `used` has its age in turns, its place from the end among the tool's results, and the tokens of these up to it.
        """
        for name, number in used.items():
            most = getattr(self, name)
            if most is not None and number > most:
                return f"{name}={most}"
        return None


class Compact(Record):
    """When the oldest messages of a conversation are summarised, and how.

    Attributes:
        at: The part of the room for messages from which on a model call is preceded by a summary.
        model: The model that summarises, by litellm's name or as a `Model` with all that it has (retries, fallbacks, breaker,
            options); None: the agent's own.
        prompt: Its instructions, in place of the usual ones.
        max_tokens: How many tokens a summary may have; None: 1,024, at most a third of `at` of the room.
        keep: How many messages, the last ones, stay as they are; None: those that the model has not answered yet.
        timeout_s: The seconds for a summary, within `Limits.model_timeout_s`.
    """

    at: float = Field(default=0.8, ge=0.1, le=1)
    model: ModelName | ModelChain | DeclaredModel | None = None
    prompt: Annotated[str, Field(min_length=1, max_length=100_000)] | None = None
    max_tokens: Count | None = None
    keep: Annotated[int, Field(ge=1, le=10_000)] | None = None
    timeout_s: Seconds = 120

    @property
    def chain(self) -> ModelChain | None:
        """The models that summarise, if they are declared for that with all that they have; None: a name, or the agent's."""
        if isinstance(self.model, DeclaredModel):
            return self.model.chain
        return self.model if isinstance(self.model, ModelChain) else None


class Context(Record):
    """How much of a conversation is sent to the model.

    Attributes:
        budget: How many tokens a request and its answer may have together; None: as many as litellm's table of models says of
            the agent's model.
        keep: How many messages, the last ones, are not left out as long as they fit.
        retain: By a tool's name, how long its results are sent whole; `*` stands for every tool without an entry of its own.
        preview: A result of more tokens than this is sent as a preview, and the model reads on with the built-in tool
            `read_result`, at most so many tokens at once; None: results are sent whole, and there is no such tool.
        compact: When the oldest messages are summarised; None: they are left out instead.
    """

    budget: Count | None = None
    keep: int = Field(default=10, ge=1, le=10_000)
    retain: Mapping[str, Retain] = Field(default_factory=dict, max_length=1000)
    preview: Annotated[int, Field(ge=LEAST_PREVIEW, le=LARGEST_BUDGET)] | None = 2048
    compact: Compact | None = None

    def of_tool(self, tool: str) -> Retain | None:
        """How long the results of a tool are sent whole; None: as long as their call is sent."""
        return self.retain.get(tool) or self.retain.get(EVERY_TOOL)


def check_compacts(agent: str, context: Context | None) -> None:
    """Refuse to summarise the conversations of an agent that does not have them summarised."""
    if context is None or context.compact is None:
        raise InvalidInput("agent", f"{agent!r} has no Compact", "declare Agent(context=Context(compact=Compact()))")
