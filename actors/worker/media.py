"""Images and files in the messages to a model: what its route takes, and how litellm wants it.

A worker fetches no URL of a sender's: where litellm would fetch it to send its data, the route takes no URLs.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.conversation.terms.parts import in_words

FETCHED = frozenset(
    {
        *("gemini", "vertex_ai", "vertex_ai_beta", "bedrock", "bedrock_converse", "bedrock_mantle"),
        *("ollama", "ollama_chat", "snowflake"),
    }
)
"""The routes for which litellm fetches the URL of an image. That of a file it fetches for all but Anthropic's interface."""
ORDERED = frozenset({"mistral", "codestral"})
"""The routes whose provider refuses a user's message behind results: they take none of their images and files."""
PDF, TEXT = "data:application/pdf;", "data:text/"


class Unsendable(Exception):
    """The model's route cannot take a part of the present turn; the message says why."""


def sendable(
    transcript: list[dict[str, Any]], *, model: str, route: str, anthropic: bool, blind: Callable[[], bool]
) -> list[dict[str, Any]]:
    """The transcript's messages with parts as litellm takes them; those without parts stay as they are.

    A part of an earlier turn that the route cannot take becomes words, so that the conversation can go on. Images and files of
    results stand in the results on Anthropic's interface; on others, which take text there, they follow in a user's message.
    `anthropic`: the interface is Anthropic's. `blind` says whether the model is known to take no images.

    Raises:
        Unsendable: The route cannot take a part of the present turn.
    """
    if not any(isinstance(message.get("content"), list) for message in transcript):
        return transcript
    asked = (place for place, message in enumerate(transcript) if message["role"] == "user" and "misfit" not in message)
    present = max(asked, default=0)

    def sent(part: Mapping[str, Any], place: int) -> dict[str, Any]:
        problem = _problem(part, route, anthropic=anthropic, blind=blind)
        if route in ORDERED and part["type"] != "text" and transcript[place]["role"] == "tool":
            problem = f"{route} takes no images and files of results"
        if problem is None:
            return _for_litellm(part)
        if place >= present:
            raise Unsendable(f"{model} cannot be sent a part of this turn: {problem}")
        return {"type": "text", "text": f"[left out: {problem}]"}

    found: list[dict[str, Any]] = []
    apart: list[dict[str, Any]] = []
    for place, message in enumerate(transcript):
        if apart and message["role"] != "tool":
            found.append({"role": "user", "content": apart})
            apart = []
        if isinstance(message.get("content"), list):
            parts = [sent(part, place) for part in message["content"]]
            if message["role"] == "tool" and not anthropic:
                named = {"type": "text", "text": f"Attached to the result of call {message['tool_call_id']}:"}
                apart += [] if route in ORDERED else [named, *parts[1:]]
                message = {**message, "content": parts[0]["text"]}  # noqa: PLW2901 - the envelope
            else:
                message = {**message, "content": parts}  # noqa: PLW2901 - the transcript's stays as it is
        found.append(message)
    return [*found, *([{"role": "user", "content": apart}] if apart else ())]


def _problem(part: Mapping[str, Any], route: str, *, anthropic: bool, blind: Callable[[], bool]) -> str | None:
    """Why the route cannot take a part; None if it can, or nobody knows."""
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            if blind():
                return "the model takes no images"
            return f"{route} takes no image by its URL; send its data" if _is_url(url) and route in FETCHED else None
        case {"type": "file", "file": {"file_url": _}}:
            return None if anthropic and route not in FETCHED else f"{route or 'it'} takes no file by its URL; send its data"
        case {"type": "file", "file": {"file_data": str(data)}}:
            return "Anthropic takes files of PDF and text only" if anthropic and not data.startswith((PDF, TEXT)) else None
    return None


def _is_url(url: str) -> bool:
    return url.startswith("https:")


def _for_litellm(part: Mapping[str, Any]) -> dict[str, Any]:
    """A copy, which litellm may change; it reads the URL of a file from the place of an id. A file of text becomes its text."""
    match part:
        case {"type": "file", "file": {"file_data": str(data)}} if data.startswith(TEXT):
            return {"type": "text", "text": f"{in_words([part])}\n{base64.b64decode(data.partition(',')[2]).decode()}"}
        case {"type": "file", "file": {"file_url": url}}:
            return {"type": "file", "file": {"file_id": url}}
    return {name: dict(said) if isinstance(said, dict) else said for name, said in part.items()}
