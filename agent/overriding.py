"""What messages may override for their own turn: `Agent(overridable=...)`."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from holdfast.conversation.terms.overrides import EFFORTS, MOST_OUTPUT_TOKENS, MOST_OVERRIDABLE_MODELS, Overridable, Overrides
from holdfast.errors import ConfigurationError

from .models import Model

ALL: Mapping[str, Any] = {
    "temperature": (0, 2),
    "max_tokens": MOST_OUTPUT_TOKENS,
    "top_p": (0, 1),
    "reasoning_effort": EFFORTS,
}
"""What a name without bounds allows."""
FIX = 'give names, such as ["temperature"], or bounds: {"model": ["openai/gpt-4o"], "max_tokens": 4096, "temperature": (0, 1)}'


def declared(given: Any, own: Sequence[Model], field: str) -> tuple[Overridable | None, tuple[Model, ...]]:
    """What may be overridden, and the models that may be asked; `own` are those that the agent has already."""
    if given is None:
        return None, ()
    if isinstance(given, str) or not isinstance(given, Mapping | Sequence):
        raise ConfigurationError(field, f"{type(given).__name__} is neither names nor bounds", FIX)
    bounds: dict[Any, Any] = dict(given) if isinstance(given, Mapping) else dict.fromkeys(given, True)
    unknown = [name for name in bounds if name not in Overrides.model_fields]
    if unknown:
        raise ConfigurationError(field, f"{unknown[0]!r:.100} is nothing that can be overridden", FIX)
    models = _models(bounds.pop("model", ()), own, f"{field}[model]")
    said = {name: ALL[name] if bound is True else bound for name, bound in bounds.items()}
    try:
        found = Overridable(models=tuple(one.spec for one in models), **said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ConfigurationError(f"{field}[{'.'.join(map(str, first['loc']))}]", str(first["msg"]), FIX) from error
    return (None if found == Overridable() else found), models


def _models(given: Any, own: Sequence[Model], field: str) -> tuple[Model, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigurationError(field, "its models are not named", "list them, by name or as Model(...)")
    if len(given) > MOST_OVERRIDABLE_MODELS:
        raise ConfigurationError(field, f"they are more than {MOST_OVERRIDABLE_MODELS}", "leave out the last ones")
    known, found = {one.spec.model: one for one in own}, dict[str, Model]()
    for place, item in enumerate(given):
        if not isinstance(item, Model | str):
            raise ConfigurationError(f"{field}[{place}]", f"{type(item).__name__} is no model", "give a name or Model(...)")
        model = known.get(item) or Model(item) if isinstance(item, str) else item
        if model.spec.model in found or (not isinstance(item, str) and model.spec.model in known):
            raise ConfigurationError(f"{field}[{place}]", f"{model.spec.model!r:.200} is named twice", "name each model once")
        if model.fallbacks and model is not known.get(model.spec.model):
            problem = f"{model.spec.model!r:.200} has fallbacks of its own"
            raise ConfigurationError(f"{field}[{place}]", problem, "the agent's fallbacks follow it; leave them out")
        found[model.spec.model] = model
    return tuple(found.values())
