"""What a message says of the model calls of its own turn, and how much of that an agent allows."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from holdfast.conversation.record import Record
from holdfast.conversation.text import jsontext
from holdfast.errors import InvalidMessage

from .models import ModelSpec

MOST_OVERRIDABLE_MODELS = 16
MOST_OUTPUT_TOKENS = 10_000_000
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
"""The reasoning efforts that an agent allows if it names none."""
OTHER_LIMIT = "max_completion_tokens"
"""The other name of `max_tokens`; a provider refuses both at once."""

Temperature = Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Effort = Annotated[str, Field(pattern="^[a-z_]{1,32}$")]
Tokens = Annotated[int, Field(ge=1, le=MOST_OUTPUT_TOKENS)]


class Overrides(Record):
    """What the model calls of one turn have in place of what the agent says; None: as the agent says.

    Attributes:
        model: The model that is asked first, one of those that the agent allows; the agent's fallbacks follow it.
        temperature: From 0 to 2.
        max_tokens: How many tokens an answer may have.
        top_p: From 0 to 1.
        reasoning_effort: How much the model thinks, in the provider's word, such as "low".
    """

    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    temperature: Temperature | None = None
    max_tokens: Tokens | None = None
    top_p: Share | None = None
    reasoning_effort: Effort | None = None

    @property
    def given(self) -> dict[str, Any]:
        """What is given, by name."""
        return self.model_dump(exclude_none=True)

    def options(self, options: str) -> str:
        """The JSON text of a model's options with these in place of its own."""
        found, given = jsontext.loads(options), self.given
        given.pop("model", None)
        if "max_tokens" in given and OTHER_LIMIT in found:
            given[OTHER_LIMIT] = given.pop("max_tokens")
        return jsontext.dumps({**found, **given}) if given else options


class Overridable(Record):
    """What messages may override for their turn.

    Attributes:
        models: The models that may be asked first.
        temperature: The lowest and the highest; None: it may not be overridden.
        top_p: The lowest and the highest; None: it may not be overridden.
        max_tokens: The most; None: it may not be overridden.
        reasoning_effort: The words that may be given.
    """

    models: tuple[ModelSpec, ...] = Field(default=(), max_length=MOST_OVERRIDABLE_MODELS)
    temperature: tuple[Temperature, Temperature] | None = None
    top_p: tuple[Share, Share] | None = None
    max_tokens: Tokens | None = None
    reasoning_effort: tuple[Effort, ...] = Field(default=(), max_length=32)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for name in ("temperature", "top_p"):
            bounds = getattr(self, name)
            if bounds is not None and bounds[0] > bounds[1]:
                raise ValueError(f"{name}: the lowest is above the highest")
        return self

    def model(self, name: str) -> ModelSpec | None:
        """The model of that name, if it may be asked first."""
        return next((one for one in self.models if one.model == name), None)

    def allowed(self, name: str) -> str:
        """What may be given for a field, in words; empty: nothing."""
        match getattr(self, "models" if name == "model" else name):
            case (float() | int() as low, float() | int() as high):
                return f"from {low:g} to {high:g}"
            case int() as most:
                return f"at most {most}"
            case tuple() as several:
                return ", ".join(one.model if isinstance(one, ModelSpec) else one for one in several)
        return ""

    def problem(self, name: str, value: Any) -> str | None:
        """What is wrong with a value that is given for a field; None: it may be overridden with it."""
        allowed = self.allowed(name)
        if not allowed:
            return f"{name} may not be overridden"
        checks: Mapping[str, Callable[[], bool]] = {
            "model": lambda: self.model(value) is not None,
            "max_tokens": lambda: self.max_tokens is not None and value <= self.max_tokens,
            "reasoning_effort": lambda: value in self.reasoning_effort,
        }
        bounds = getattr(self, name, None)
        within = checks.get(name) or (lambda: bounds is not None and bounds[0] <= value <= bounds[1])
        return None if within() else f"{name}={value!r:.200} is not allowed ({allowed:.500})"


def problem_of(overridable: Overridable | None, given: Overrides) -> str | None:
    """Why an agent does not allow what a message overrides, in words; None if it allows all of it."""
    allowed = overridable or Overridable()
    return next((found for name, value in given.given.items() if (found := allowed.problem(name, value))), None)


def check_allowed(overridable: Overridable | None, given: Overrides | None) -> None:
    """Refuse (`InvalidMessage`) overrides that an agent does not allow."""
    problem = None if given is None else problem_of(overridable, given)
    if problem is not None:
        raise InvalidMessage("overrides", problem, "leave it out, or have Agent(overridable=) allow it")


def overrides_of(value: object) -> Overrides | None:
    """Overrides as a caller gives them, or as a mapping of their names; None for None and for none given."""
    if value is None or isinstance(value, Overrides):
        return value if value is not None and value.given else None
    if not isinstance(value, Mapping):
        raise InvalidMessage("overrides", f"{type(value).__name__} is none", "give Overrides(temperature=...)")
    try:
        return overrides_of(Overrides.model_validate(dict(value)))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(["overrides", *map(str, first["loc"])])
        raise InvalidMessage(re.sub(r"[^\w.]", "?", where)[:200], str(first["msg"]), "give another value") from error
