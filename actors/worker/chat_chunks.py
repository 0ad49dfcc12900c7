"""Chunks of OpenAI's chat interface, the form in which litellm takes any provider's answer."""

import math
from typing import Any


def chunk(delta: dict[str, Any], reason: str | None = None, *, usage: dict[str, Any] | None = None) -> dict[str, Any]:
    """A chunk with one choice."""
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"object": "chat.completion.chunk", "choices": [choice]} | ({"usage": usage} if usage else {})


def usage(asked: Any, answered: Any, **details: object) -> dict[str, Any] | None:
    """The numbers of tokens of the request and of the answer, with details that are objects; None where they are no numbers."""
    if not all(isinstance(count, int | float) and math.isfinite(count) for count in (asked, answered)):
        return None
    counts = {"prompt_tokens": int(asked), "completion_tokens": int(answered), "total_tokens": int(asked + answered)}
    return counts | {name: detail for name, detail in details.items() if isinstance(detail, dict)}
