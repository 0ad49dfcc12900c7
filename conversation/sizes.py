"""How many tokens messages and requests have, by an estimate from bytes, and how many they may have."""

from collections.abc import Mapping
from typing import Any

from holdfast.conversation import notes
from holdfast.conversation.terms.context import MOST_OUTPUT
from holdfast.conversation.terms.reply import DESCRIPTION, FINAL_ANSWER
from holdfast.conversation.terms.spec import AgentSpec
from holdfast.conversation.text import jsontext
from holdfast.conversation.text.envelope import to_summarize
from holdfast.conversation.text.tokens import text_tokens

MESSAGE_TOKENS = 4
"""What a message has besides its words: its role and its bounds."""
IMAGE_TOKENS = 1500
FILE_BYTES = 20
"""How many bytes of a file's data are counted as a token."""
RESERVE = 20
"""The part of the budget that is kept free (1/20), since counts are estimates."""
MOST_SUMMARY = 1024
"""How many tokens a summary may have if its agent does not say so; in a small window a third of what it stands for."""


THINKING, MOST_THINKING = 16, 4096
"""The part of the budget (1/16) that may be thought before a summary, and its bound in tokens."""


def message_tokens(message: Mapping[str, Any]) -> int:
    """About how many tokens a message has."""
    content = message.get("content")
    tokens = MESSAGE_TOKENS + (text_tokens(content) if isinstance(content, str) else sum(map(_part_tokens, content or ())))
    for called in message.get("tool_calls", ()):
        tokens += text_tokens(called["function"]["name"]) + text_tokens(called["function"]["arguments"])
    return tokens + (text_tokens(jsontext.dumps(message["provider"])) if "provider" in message else 0)


def _part_tokens(part: Mapping[str, Any]) -> int:
    match part["type"]:
        case "text":
            return text_tokens(part["text"])
        case "image_url":
            return IMAGE_TOKENS
        case _:
            return IMAGE_TOKENS + len(part["file"].get("file_data") or "") // FILE_BYTES


def fixed_tokens(spec: AgentSpec) -> int:
    """About how many tokens a request has before its messages: the instructions, the tools and the schema of replies."""
    tokens = MESSAGE_TOKENS + text_tokens(spec.instructions)
    for tool in spec.tools:
        tokens += MESSAGE_TOKENS + text_tokens(tool.definition or tool.name + tool.description + tool.parameters)
    if spec.reply is not None:
        tokens += MESSAGE_TOKENS + text_tokens(FINAL_ANSWER + DESCRIPTION + spec.reply)
    return tokens


def budget_of(spec: AgentSpec) -> int | None:
    """How many tokens a request of the agent may have, its instructions and tools included; None: they are not bounded."""
    if spec.context is None or spec.context.budget is None:
        return None
    return spec.context.budget - output_tokens(spec) - spec.context.budget // RESERVE


def output_tokens(spec: AgentSpec) -> int:
    """How many tokens of the budget are the answer's: as many as the model options allow, else a quarter, at most 4,096."""
    options = jsontext.loads(spec.model_options)
    for name in ("max_completion_tokens", "max_tokens"):
        if isinstance(given := options.get(name), int) and not isinstance(given, bool) and given > 0:
            return given
    budget = (spec.context.budget if spec.context is not None else None) or 0
    return min(budget // 4, MOST_OUTPUT)


def summary_tokens(spec: AgentSpec) -> int:
    """How many tokens a summary of the agent's conversations may have; 0 if there are none."""
    budget, compact = budget_of(spec), spec.context.compact if spec.context is not None else None
    if budget is None or compact is None:
        return 0
    return compact.max_tokens or max(min(MOST_SUMMARY, int((budget - fixed_tokens(spec)) * compact.at) // 3), 1)


def notes_tokens(spec: AgentSpec) -> int:
    """How many tokens the answer to a request for a summary may have: models that think use some before they write it."""
    budget = (spec.context.budget if spec.context is not None else None) or 0
    return summary_tokens(spec) + min(budget // THINKING, MOST_THINKING)


def asking_tokens(spec: AgentSpec) -> int:
    """How many tokens of the agent's budget for requests a request for a summary has besides the messages."""
    compact = spec.context.compact if spec.context is not None else None
    if compact is None:
        return 0
    asked = text_tokens(compact.prompt or notes.PROMPT) + text_tokens(to_summarize([])) + 2 * MESSAGE_TOKENS
    return asked + max(notes_tokens(spec) - output_tokens(spec), 0)
