"""Cohere's events (version 2), as chunks of OpenAI's form: litellm's own parser cannot read them as they really come."""

from typing import Any

from . import chat_chunks


def chunk(event: dict[str, Any]) -> dict[str, Any] | None:
    """The chunk of OpenAI's form that says what an event says; None where that is nothing.

    The plan that Cohere's models make before their calls is their reasoning.
    """
    delta = event.get("delta")
    message = delta.get("message") if isinstance(delta, dict) else None
    match event, message:
        case {"type": "content-start" | "content-delta"}, {"content": {"text": str(text)}}:
            return chat_chunks.chunk({"content": text})
        case {"type": "content-start" | "content-delta"}, {"content": {"thinking": str(text)}}:
            return chat_chunks.chunk({"reasoning_content": text})
        case {"type": "tool-plan-delta"}, {"tool_plan": str(text)}:
            return chat_chunks.chunk({"reasoning_content": text})
        case {"type": "tool-call-start" | "tool-call-delta"}, {"tool_calls": dict(called)}:
            return chat_chunks.chunk({"tool_calls": [{"index": event.get("index", 0), "type": "function", **called}]})
        case {"type": "message-end", "delta": {"finish_reason": str(reason)}}, _:
            return chat_chunks.chunk({}, reason, usage=_usage(event["delta"].get("usage")))
    return None


def _usage(usage: Any) -> dict[str, Any] | None:
    tokens = usage.get("tokens") if isinstance(usage, dict) else None
    return chat_chunks.usage(tokens.get("input_tokens"), tokens.get("output_tokens")) if isinstance(tokens, dict) else None
