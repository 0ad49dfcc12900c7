"""Gemini's candidates, put in the form that litellm's parser reads, with the text signatures that it loses.

Gemini omits the arguments of calls without any, which litellm expects, and sends them in pieces if
`streamFunctionCallArguments` is set, which litellm does not support.
"""

import re
from typing import Any

from .kept_parts import KeptParts

STEP = re.compile(r"\.([^.\[\]*]+)|\[(\d{1,6})\]|\[['\"]([^'\"\]]*)['\"]\]")
VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")
DEPTH = 100


class GeminiParts:
    """Reads the parts of one answer."""

    def __init__(self) -> None:
        self.kept = KeptParts()
        self.unreadable = False
        """Whether arguments came in pieces of an unknown form, so that the call is unknown."""
        self._open: dict[str, Any] | None = None
        self._open_size = 0

    def mend(self, event: dict[str, Any]) -> bool:
        """Change an event of the stream for litellm, in place; whether it was changed."""
        changed = False
        for candidate in event["candidates"]:
            content = candidate.get("content") if isinstance(candidate, dict) and not candidate.get("index") else None
            parts = content.get("parts") if isinstance(content, dict) else None
            ended = isinstance(candidate, dict) and bool(candidate.get("finishReason"))
            if not isinstance(parts, list):
                parts = []
            mended = [one for part in parts if isinstance(part, dict) for one in self._part(part)]
            if ended and self._open is not None:
                mended.append(self._closed())
            if mended != parts:
                candidate["content"], changed = {"role": "model", "parts": mended}, True
        return changed

    def _part(self, part: dict[str, Any]) -> list[dict[str, Any]]:
        called = part.get("functionCall")
        if not isinstance(called, dict):
            if isinstance(part.get("text"), str) and not part.get("thought"):
                self.kept.text(part["text"], str(part.get("thoughtSignature") or ""))
            return [part]
        more = called.get("willContinue") is True
        if "name" in called and not (more or "partialArgs" in called):
            return [self._closed()] * (self._open is not None) + [part | {"functionCall": {"args": {}} | called}]
        found = []
        if "name" in called:
            found = [self._closed()] if self._open is not None else []
            self._open = part | {"functionCall": {"name": called["name"], "args": called.get("args") or {}}}
            self._open["functionCall"] |= {"id": called["id"]} if "id" in called else {}
        if self._open is None:
            return found
        pieces = called.get("partialArgs")
        for piece in pieces if isinstance(pieces, list) else ():
            self.unreadable |= not (isinstance(piece, dict) and _put(self._open["functionCall"]["args"], piece))
            self._open_size += len(str(piece))
            self.kept.size += len(str(piece))
        return found if more else [*found, self._closed()]

    def _closed(self) -> dict[str, Any]:
        part, self._open = self._open or {}, None
        self.kept.size -= self._open_size  # litellm hands them on now
        self._open_size = 0
        return part


def _put(arguments: Any, piece: dict[str, Any]) -> bool:
    path = str(piece.get("jsonPath"))
    steps: list[str | int] = [int(place) if place else name or quoted for name, place, quoted in STEP.findall(path)]
    kind = next((name for name in VALUES if name in piece), None)
    if STEP.sub("", path) != "$" or not 0 < len(steps) <= DEPTH or kind is None:
        return False
    container = arguments
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(step, int):
            if not isinstance(container, list) or step > len(container):
                return False
            container += [None] * (step == len(container))
            before = container[step]
        elif isinstance(container, dict):
            before = container.get(step)
        else:
            return False
        if following is not None:
            value: Any = ([] if isinstance(following, int) else {}) if before is None else before
        elif kind == "stringValue":
            value = (before if isinstance(before, str) else "") + str(piece[kind])
        else:
            value = None if kind == "nullValue" else piece[kind]
        container[step] = value
        container = value
    return True
