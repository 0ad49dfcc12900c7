"""Where a model call goes, and with which options: the imported app decides; the store sets only `STORED_OPTIONS`."""

import logging
import re
from collections.abc import Callable
from typing import Any

from holdfast.agent import Agent
from holdfast.conversation.compaction import without_thinking
from holdfast.conversation.terms.models import ModelSpec
from holdfast.conversation.terms.spec import STORED_OPTIONS
from holdfast.conversation.text import jsontext

logger = logging.getLogger("holdfast.worker")

FIXED = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "azure": ("AZURE_API_KEY", "AZURE_OPENAI_API_KEY"),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "cohere_chat": ("COHERE_API_KEY", "CO_API_KEY"),
    "deepinfra": ("DEEPINFRA_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks_ai": ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "moonshot": ("MOONSHOT_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
    "sambanova": ("SAMBANOVA_API_KEY",),
    "together_ai": ("TOGETHERAI_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHER_API_KEY"),
    "xai": ("XAI_API_KEY",),
}
"""Providers whose address is constant or set in the environment, with the variables of their own keys.

A model's name is no part of such an address. Without the provider's own key, litellm would send it another provider's.
"""
_WORD = re.compile(r"(?!arn:)[A-Za-z0-9][A-Za-z0-9._:@+-]{0,199}")
"""A part of a model's name that only identifies the model."""


class Elsewhere(Exception):
    """The store names a model that the app does not, and that could be called elsewhere; the message names the fix."""


def arguments(
    model: ModelSpec,
    agent: Agent | None,
    provider: Callable[[str], str],
    keyed: Callable[[str], bool],
    *,
    summarizes: bool = False,
) -> dict[str, Any]:
    """The model and the options of a call; `Elsewhere` if the store names a model that might choose a destination.

    A running turn may have begun with an older spec than the app's. `provider` gives the provider that a model is called at (''
    if unknown), `keyed` whether a provider of `FIXED` would be called with its own key. `summarizes`: it is for a summary.
    """
    place, declared = _place(model.model, provider), _declared(agent, summarizes=summarizes)
    own = next((options for name, options in declared if name == model.model), None)
    if own is None and place:
        own = next((options for name, options in declared if place == _place(name, provider)), None)
    if own is None and agent is not None and _summarizes(agent, model.model):
        own = {}
    if own is None:
        if place not in FIXED or not keyed(place) or any(options for _, options in declared):
            raise Elsewhere(_refusal(model.model, agent))
        own = {}
    stored = jsontext.loads(model.options)
    foreign = sorted(stored.keys() - STORED_OPTIONS - own.keys())
    if foreign:
        logger.warning("model %s: options in the store that only the app may set are ignored: %.300s", model.model, foreign)
    return {name: value for name, value in stored.items() if name in STORED_OPTIONS} | own | {"model": model.model}


def _declared(agent: Agent | None, *, summarizes: bool) -> list[tuple[str, dict[str, Any]]]:
    """The models that the app declares for an agent, in their order, with the options that are not stored.

    Where one of them summarises, those that are declared for that come first.
    """
    if agent is None:
        return []
    chosen = agent.spec.overridable.models if agent.spec.overridable is not None else ()
    others = (*agent.spec.fallbacks, *chosen)
    options = (*agent.fallback_options, *agent.overridable_options)
    found = [(agent.spec.model, agent.own_options), *((one.model, own) for one, own in zip(others, options, strict=True))]
    if not summarizes:
        return found
    compact = agent.spec.context.compact if agent.spec.context is not None else None
    models = compact.chain.models if compact is not None and compact.chain is not None else ()
    own = [(one.model, options) for one, options in zip(models, agent.summary_options, strict=True)]
    return own + [(name, without_thinking(options)) for name, options in found]


def _summarizes(agent: Agent, model: str) -> bool:
    """Whether the app names the model for summaries, without options of its own."""
    terms = agent.spec.context
    return terms is not None and terms.compact is not None and terms.compact.model == model


def _refusal(model: str, agent: Agent | None) -> str:
    declared = f"its agent {agent.name!r} has {agent.spec.model!r:.200}" if agent is not None else "it has no such agent"
    return (
        f"the turn began with the model {model!r:.200}; the app that the workers run declares another ({declared}), "
        "and only the app may say where a model is called: declare that model until the turn is over, set the key of its "
        "provider, or cancel the turn"
    )


def _place(model: str, provider: Callable[[str], str]) -> str:
    """The part of a model's name that may choose its destination: equal parts, equal destination. '' if unknown."""
    words = model.split("/")
    family = words[0] if len(words) > 1 else provider(model)
    if family in FIXED:  # a prefix proves nothing: "azure/mistral-large-latest" is called as OpenAI's
        return family if provider(model) == family and all(_WORD.fullmatch(word) for word in words) else ""
    head, slash, word = model.rpartition("/")
    return f"{head}/" if slash and _WORD.fullmatch(word) else ""
