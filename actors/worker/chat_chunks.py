"""Chunks of OpenAI's chat interface, litellm's form for every provider's answer, made from other events.

litellm's own parser cannot read Cohere's real events (version 2). Its translation of OpenAI's Responses interface loses
refusals, reasoning after its first part, arguments that come in one piece, and some call ids.
"""

import math
from typing import Any

from .kept_parts import KeptParts


def _chunk(delta: dict[str, Any], reason: str | None = None, *, usage: dict[str, Any] | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"object": "chat.completion.chunk", "choices": [choice]} | ({"usage": usage} if usage else {})


def usage_of(asked: Any, answered: Any, **details: object) -> dict[str, Any] | None:
    """The token counts of the request and the answer, with the details that are objects; None if they are no numbers."""
    if not all(isinstance(count, int | float) and math.isfinite(count) for count in (asked, answered)):
        return None
    counts = {"prompt_tokens": int(asked), "completion_tokens": int(answered), "total_tokens": int(asked + answered)}
    return counts | {name: detail for name, detail in details.items() if isinstance(detail, dict)}


def cohere_chunk(event: dict[str, Any]) -> dict[str, Any] | None:
    """The chunk of OpenAI's form for a Cohere event, if any; the plan before calls is the model's reasoning."""
    delta = event.get("delta")
    message = delta.get("message") if isinstance(delta, dict) else None
    match event, message:
        case {"type": "content-start" | "content-delta"}, {"content": {"text": str(text)}}:
            return _chunk({"content": text})
        case {"type": "content-start" | "content-delta"}, {"content": {"thinking": str(text)}}:
            return _chunk({"reasoning_content": text})
        case {"type": "tool-plan-delta"}, {"tool_plan": str(text)}:
            return _chunk({"reasoning_content": text})
        case {"type": "tool-call-start" | "tool-call-delta"}, {"tool_calls": dict(called)}:
            return _chunk({"tool_calls": [{"index": event.get("index", 0), "type": "function", **called}]})
        case {"type": "message-end", "delta": {"finish_reason": str(reason)}}, _:
            return _chunk({}, reason, usage=_cohere_usage(event["delta"].get("usage")))
    return None


def _cohere_usage(usage: Any) -> dict[str, Any] | None:
    tokens = usage.get("tokens") if isinstance(usage, dict) else None
    return usage_of(tokens.get("input_tokens"), tokens.get("output_tokens")) if isinstance(tokens, dict) else None


RESPONSES = "/responses"
"""Suffix of the route's name if kept parts can go back only by this interface."""
SEALED = ("id", "type", "summary", "encrypted_content")
"""The keys of a reasoning item that are sent back."""
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""The types of the items that are calls of ours, and the field with their arguments."""


class ResponsesEvents:
    """Reads the events of one answer."""

    def __init__(self) -> None:
        self.kept = KeptParts()
        self._calls: dict[int, int] = {}
        self._begun: set[int] = set()

    def chunk(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """The chunk of OpenAI's chat interface for an event, if any."""
        place = event["output_index"] if isinstance(event.get("output_index"), int) else -1
        match event:
            case {"type": "response.output_text.delta", "delta": str(text)}:
                self.kept.text(text)
                return _chunk({"content": text})
            case {"type": "response.refusal.delta", "delta": str(text)}:
                return _chunk({"refusal": text})
            case {"type": "response.reasoning_summary_text.delta" | "response.reasoning_text.delta", "delta": str(text)}:
                return _chunk({"reasoning_content": text})
            case {"type": "response.output_item.added", "item": {"type": str(kind)} as item} if kind in CALLS:
                return self._called(place, item)
            case {
                "type": "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta",
                "delta": str(text),
            } if place in self._calls:
                self._begun.add(place)
                return self._call(place, {"arguments": text})
            case {"type": "response.output_item.done", "item": {"type": str(kind)} as item}:
                return self._done(place, kind, item)
            case {"type": "response.completed" | "response.incomplete" | "response.failed" as kind, "response": dict(response)}:
                return self._ended(kind, response)
            case {"delta": str(text)}:
                self.kept.size += len(text)  # such as the code that OpenAI runs
        return None

    def _called(self, place: int, item: dict[str, Any]) -> dict[str, Any]:
        self._calls[place] = len(self._calls)
        self.kept.call()
        function = {"name": item.get("name"), "arguments": ""}
        return self._call(place, function, id=item.get("call_id"), type="function")

    def _call(self, place: int, function: dict[str, Any], **more: Any) -> dict[str, Any]:
        return _chunk({"tool_calls": [{"index": self._calls[place], "function": function, **more}]})

    def _done(self, place: int, kind: str, item: dict[str, Any]) -> dict[str, Any] | None:
        if kind == "reasoning" and item.get("encrypted_content"):
            self.kept.reasoning({name: item[name] for name in SEALED if name in item})
        elif kind in CALLS:
            begins = None if place in self._calls else self._called(place, item)
            arguments = "" if place in self._begun else item.get(CALLS[kind]) or ""
            if begins is not None:
                begins["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] = arguments
            return begins or (self._call(place, {"arguments": arguments}) if arguments else None)
        elif kind != "message":
            self.kept.other()
        return None

    def _ended(self, kind: str, response: dict[str, Any]) -> dict[str, Any]:
        reason = "tool_calls" if self._calls else "stop"
        if kind != "response.completed":
            details = response.get("incomplete_details")
            said = details.get("reason") if isinstance(details, dict) else None
            reason = str(said or kind.removeprefix("response."))
        return _chunk({}, reason, usage=_usage(response.get("usage")))


def _usage(usage: Any) -> dict[str, Any] | None:
    if not isinstance(usage, dict):
        return None
    details = {
        "prompt_tokens_details": usage.get("input_tokens_details"),
        "completion_tokens_details": usage.get("output_tokens_details"),
    }
    return usage_of(usage.get("input_tokens"), usage.get("output_tokens"), **details)
