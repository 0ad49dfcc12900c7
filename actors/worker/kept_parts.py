"""The order of an answer's parts, if its provider wants some of them back unchanged: signed texts, sealed reasoning.

As with Anthropic's blocks, texts are not kept twice: a part's `length` says how many characters of the message's text it has.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.conversation.text import jsontext


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
        """The parts to keep beside the message with this text; none if the message says all that they say."""
        if not any(part["type"] == "reasoning" or "signature" in part for part in self._parts):
            return []
        texts = [jsontext.clean("".join(part["_"])) for part in self._parts if part["type"] == "text"]
        said, texts = "".join(texts) == content, list(reversed(texts))
        return [_kept(part, texts, said=said) for part in self._parts]


def _kept(part: dict[str, Any], texts: list[str], *, said: bool) -> dict[str, Any]:
    if part["type"] != "text":
        return part
    text, rest = texts.pop(), {name: value for name, value in part.items() if name != "_"}
    return rest | ({"length": len(text)} if said else {"text": text})


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
