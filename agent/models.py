"""A model with what is done where it cannot answer: `Agent(model=Model(...))`."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.conversation.terms.context import Context
from holdfast.conversation.terms.models import (
    MOST_FALLBACKS,
    MOST_RETRIES,
    RETRIES,
    Breaker,
    DeclaredModel,
    ModelChain,
    ModelSpec,
)
from holdfast.errors import ConfigurationError

from . import call_options, checks

NAME_IT = 'name a model, such as "openai/gpt-4o-mini"'
USUAL = Breaker()


class Model(DeclaredModel):
    """A model, and what is done where it cannot answer.

    A try that fails for a passing reason (429, 5xx, a timeout, a lost connection) is repeated. Then, or if the provider refuses
    the key or does not know the model, the next fallback is asked, all within `Limits.model_timeout_s`.

    Args:
        name: The model as litellm names it, provider first.
        options: As `Agent(model_options=...)`, for this model alone.
        retries: How often a try is repeated, from 0 to 10.
        fallbacks: At most 8 models, by name or as `Model(...)`, in the order in which they are asked; they have none of their
            own.
        breaker: When the model is passed over without being asked; None: never.

    Attributes:
        spec: The model as the state machine knows it.
        own_options: Its options that are not stored, by name.
        fallbacks: As given, each a `Model`.

    Raises:
        ConfigurationError: An argument does not fit.
    """

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any] | None = None,
        *,
        retries: int = RETRIES,
        fallbacks: "Sequence[Model | str]" = (),
        breaker: Breaker | None = USUAL,
    ) -> None:
        if not checks.text(name, "model.name").strip():
            raise ConfigurationError("model.name", "it is empty", NAME_IT)
        field = f"model {name!r:.200}"
        if isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= MOST_RETRIES:
            fix = f"give a whole number from 0 to {MOST_RETRIES}"
            raise ConfigurationError(f"{field}.retries", f"{retries!r:.100} is no number of retries", fix)
        stored, self.own_options = call_options.checked({} if options is None else options, f"{field}.options")
        checks.instance(Breaker, breaker, f"{field}.breaker", "give breaker=Breaker(...), or None")
        self.spec = ModelSpec(model=name, options=stored, retries=retries, breaker=breaker)
        self.fallbacks: tuple[Model, ...] = _fallbacks(name, fallbacks, f"{field}.fallbacks")

    def __repr__(self) -> str:
        return f"<Model {self.spec.model!r} fallbacks={[one.spec.model for one in self.fallbacks]}>"


def declared(model: Any, options: Any, field: str) -> Model:
    """The model of an agent; a name alone has the usual retries and no breaker."""
    if isinstance(model, Model):
        if options is not None:
            raise ConfigurationError(
                f"{field}.model_options", "its model has options of its own", "give Model(name, options={...})"
            )
        return model
    if not checks.text(model, f"{field}.model").strip():
        raise ConfigurationError(f"{field}.model", "it is empty", NAME_IT)
    found = Model(model, breaker=None)
    stored, found.own_options = call_options.checked(options or {}, f"{field}.model_options")
    found.spec = found.spec.model_copy(update={"options": stored})
    return found


def summarizing(context: Context | None, field: str) -> tuple[Context | None, tuple[DeclaredModel, ...]]:
    """The context as it is stored, and the models that are declared for its summaries."""
    compact = None if context is None else context.compact
    if context is None or compact is None or isinstance(compact.model, str | None):
        return context, ()
    if isinstance(compact.model, ModelChain):
        problem = f"{compact.model.model!r:.200} is what is stored of a model, without the options that stay with the app"
        raise ConfigurationError(f"{field}.model", problem, "give a name or Model(...)")
    stored = compact.model_copy(update={"model": compact.model.chain})
    return context.model_copy(update={"compact": stored}), (compact.model, *compact.model.fallbacks)


def _fallbacks(name: str, given: Any, field: str) -> tuple[Model, ...]:
    found: list[Model] = []
    known = {name}
    for place, item in enumerate(checks.items(given, Model, "models", field)):
        if place >= MOST_FALLBACKS:
            raise ConfigurationError(field, f"they are more than {MOST_FALLBACKS}", "leave out the last ones")
        if not isinstance(item, Model | str):
            raise ConfigurationError(f"{field}[{place}]", f"{type(item).__name__} is no model", "give a name or Model(...)")
        model = Model(item) if isinstance(item, str) else item
        if model.fallbacks:
            problem = f"{model.spec.model!r:.200} has fallbacks of its own"
            raise ConfigurationError(f"{field}[{place}]", problem, "give all in one list, in the order in which they are asked")
        if model.spec.model in known:
            problem = f"{model.spec.model!r:.200} is asked before, and would fail again"
            raise ConfigurationError(f"{field}[{place}]", problem, "name each model once")
        known.add(model.spec.model)
        found.append(model)
    return tuple(found)
