"""The `reasoning_details` of OpenRouter's answers, which go back unchanged, with their signatures.

The pieces of one text are joined, as OpenRouter's own client does. Texts that are the message's reasoning are not kept twice: a
detail's `length` says how many of its characters belong to the detail.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.conversation.text import jsontext

TEXT = "reasoning.text"


class ReasoningDetails:
    """Collects the details of one answer."""

    def __init__(self) -> None:
        self._details: list[dict[str, Any]] = []

    def add(self, details: object) -> int:
        """Add the details of a chunk; how many bytes of them are not in its reasoning."""
        size = 0
        for detail in details if isinstance(details, list) else ():
            if not isinstance(detail, dict):
                continue
            more = dict(detail)
            text = str(more.pop("text", None) or "") if more.get("type") == TEXT else ""
            last = self._details[-1] if self._details else {}
            if not (more.get("type") == last.get("type") == TEXT and more.get("index") == last.get("index")):
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
        return [_kept(detail, text, said=said) for detail, text in zip(self._details, texts, strict=True)]


def _kept(detail: Mapping[str, Any], text: str, *, said: bool) -> dict[str, Any]:
    rest = {name: value for name, value in detail.items() if name != "_"}
    if detail.get("type") != TEXT:
        return rest
    return rest | ({"length": len(text)} if said else {"text": text})


def whole(details: Sequence[Mapping[str, Any]], reasoning: str) -> list[dict[str, Any]]:
    """The details as they came, rebuilt from those kept beside a message with this reasoning."""
    place, found = 0, []
    for kept in details:
        detail = dict(kept)
        if isinstance(length := detail.pop("length", None), int):
            detail["text"] = reasoning[place : place + length]
            place += length
        found.append(detail)
    return found
