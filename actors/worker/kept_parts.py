"""The parts of an answer that its provider wants back unchanged: signed texts and sealed reasoning in their order, and details.

As with Anthropic's blocks, texts are not kept twice: a part's `length` says how many characters of the message's text it has, a
detail's how many of its reasoning.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.conversation.text import jsontext

DETAIL = "reasoning.text"


class KeptParts:
    """Collects the parts of one answer."""

    def __init__(self) -> None:
        self.size = 0
        """How many bytes of the parts are in no text."""
        self._parts: list[dict[str, Any]] = []

    def text(self, piece: str, signature: str = "") -> None:
        """Add a piece of text; a piece without a signature continues the part before."""
        if not (piece or signature):
            return
        last: dict[str, Any] = self._parts[-1] if self._parts else {}
        if signature or last.get("type") != "text" or "signature" in last:
            last = {"type": "text", "_": []}
            if signature:
                last["signature"] = signature
            self._parts.append(last)
        last["_"].append(piece)
        self.size += len(signature)

    def call(self) -> None:
        """Add the next of our calls."""
        self._parts.append({"type": "call"})

    def reasoning(self, item: Mapping[str, Any]) -> None:
        """Add a sealed item of reasoning."""
        self._parts.append({"type": "reasoning", "item": dict(item)})
        self.size += len(str(item))

    def other(self) -> None:
        """Note that a part stood here that is not sent back."""
        self._parts.append({"type": "other"})

    def kept(self, content: str) -> list[dict[str, Any]]:
        """The parts to keep beside the message with this text; none if the message has all that they have."""
        if not any(part["type"] == "reasoning" or "signature" in part for part in self._parts):
            return []
        texts = [jsontext.clean("".join(part["_"])) for part in self._parts if part["type"] == "text"]
        said, left = "".join(texts) == content, iter(texts)
        return [_kept(part, next(left), said=said) if part["type"] == "text" else part for part in self._parts]


class ReasoningDetails:
    """Collects the `reasoning_details` of one answer of OpenRouter's; joins the pieces of a text, as its own client does."""

    def __init__(self) -> None:
        self._details: list[dict[str, Any]] = []

    def add(self, details: object) -> int:
        """Add the details of a chunk; how many bytes of them are not in its reasoning."""
        size = 0
        for detail in details if isinstance(details, list) else ():
            if not isinstance(detail, dict):
                continue
            more = dict(detail)
            text = str(more.pop("text", None) or "") if more.get("type") == DETAIL else ""
            last = self._details[-1] if self._details else {}
            if not (more.get("type") == last.get("type") == DETAIL and more.get("index") == last.get("index")):
                last = {"_": []}
                self._details.append(last)
                size += len(str(more))
            elif more.get("signature"):
                size += len(str(more["signature"]))
            last |= {name: value for name, value in more.items() if value is not None or name not in last}
            last["_"].append(text)
        return size

    def kept(self, reasoning: str) -> list[dict[str, Any]]:
        """The details to keep beside a message with this reasoning."""
        texts = [jsontext.clean("".join(detail["_"])) for detail in self._details]
        said = "".join(texts) == reasoning
        return [
            _kept(detail, text if detail.get("type") == DETAIL else None, said=said)
            for detail, text in zip(self._details, texts, strict=True)
        ]


def _kept(part: dict[str, Any], text: str | None, *, said: bool) -> dict[str, Any]:
    rest = {name: value for name, value in part.items() if name != "_"}
    return rest if text is None else rest | ({"length": len(text)} if said else {"text": text})


def details_whole(details: Sequence[Mapping[str, Any]], reasoning: str) -> list[dict[str, Any]]:
    """The details as they came, rebuilt from those kept beside a message with this reasoning."""
    place, found = 0, []
    for kept in details:
        detail = dict(kept)
        if isinstance(length := detail.pop("length", None), int):
            detail["text"] = reasoning[place : place + length]
            place += length
        found.append(detail)
    return found


def messages(parts: Sequence[Mapping[str, Any]], plain: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages that replace one with kept parts, in their order, as litellm takes and joins them.

    Reasoning goes with the part that follows it. OpenAI refuses reasoning with a known id without that part: if the part is not
    sent back, the reasoning goes without its id.
    """
    calls, text, place = list(plain.get("tool_calls") or ()), plain.get("content") or "", 0
    found: list[dict[str, Any]] = []
    led: list[dict[str, Any]] = []
    for part in parts:
        message: dict[str, Any] = {"role": "assistant", "content": None} | ({"reasoning_items": led} if led else {})
        match part:
            case {"type": "text"}:
                length = part.get("length", 0)
                message["content"] = part.get("text", text[place : place + length])
                place += length
                if "signature" in part:
                    message["provider_specific_fields"] = {"thought_signatures": [part["signature"]]}
            case {"type": "call"} if calls:
                message["tool_calls"] = [calls.pop(0)]
            case {"type": "reasoning", "item": dict(item)}:
                led = [*led, item]
                continue
            case _:
                led = [{name: value for name, value in item.items() if name != "id"} for item in led]
                continue
        found.append(message)
        led = []
    if calls:
        found.append({"role": "assistant", "content": None, "tool_calls": calls})
    return found if found or not text else [dict(plain)]
