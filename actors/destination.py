"""Where a model call goes, and with what: the app that the worker has imported says so, never what stands in the store."""

import logging
import re
from collections.abc import Callable
from typing import Any

from holdfast.agent import Agent
from holdfast.conversation import AgentSpec, jsontext
from holdfast.conversation.spec import STORED_OPTIONS

logger = logging.getLogger("holdfast.worker")

FIXED = frozenset(
    {
        *("anthropic", "azure", "cerebras", "cohere", "cohere_chat", "deepinfra", "deepseek", "fireworks_ai", "gemini", "groq"),
        *("mistral", "moonshot", "openai", "openrouter", "perplexity", "sambanova", "together_ai", "xai"),
    }
)
"""Providers whose address is a constant or stands in the environment; a model's name is no part of it."""
_WORD = re.compile(r"(?!arn:)[A-Za-z0-9][A-Za-z0-9._:@+-]{0,199}")
"""A part of a model's name that says nothing but which model it is."""


class Elsewhere(Exception):
    """The store names a model that the app does not, and that could lead elsewhere; the message names the fix."""


def arguments(spec: AgentSpec, agent: Agent | None, provider: Callable[[str], str]) -> dict[str, Any]:
    """The model and the options of a call.

    Args:
        spec: The stored spec. A turn that goes on may have begun with an older one than the app's.
        agent: The app's agent of that name, None if it has none any more.
        provider: Which provider a bare model name, without a slash, belongs to; '' if none is known.

    Raises:
        Elsewhere: The spec's model is not the agent's, and might choose a destination.
    """
    own: dict[str, Any] = {}
    place = _place(spec.model, provider)
    if agent is not None and (spec.model == agent.spec.model or (place and place == _place(agent.spec.model, provider))):
        own = agent.own_options
    elif place not in FIXED or (agent is not None and agent.own_options):
        declared = f"its agent {agent.name!r} has {agent.spec.model!r:.200}" if agent is not None else "it has no such agent"
        message = (
            f"the turn began with the model {spec.model!r:.200}, the app that the workers run declares another ({declared}), "
            "and where a model is called is the app's to say: declare that model until the turn is over, or cancel the turn"
        )
        raise Elsewhere(message)
    stored = jsontext.loads(spec.model_options)
    foreign = sorted(stored.keys() - STORED_OPTIONS - own.keys())
    if foreign:
        logger.warning("agent %s: options in the store that only the app may set are ignored: %.300s", spec.name, foreign)
    return {name: value for name, value in stored.items() if name in STORED_OPTIONS} | own | {"model": spec.model}


def _place(model: str, provider: Callable[[str], str]) -> str:
    """What of a model's name may choose where its calls go: two with the same are called at the same place. '' if not known."""
    words = model.split("/")
    family = words[0] if len(words) > 1 else provider(model)
    if family in FIXED and all(_WORD.fullmatch(word) for word in words):
        return family
    head, slash, word = model.rpartition("/")
    return f"{head}/" if slash and _WORD.fullmatch(word) else ""
