"""Rows of lists in short: what is too long for a row is cut, and the row says what, and how long the whole is."""

import json
from dataclasses import dataclass, field
from typing import Any

from holdfast.conversation import jsontext
from holdfast.conversation.calls import CommentView, VoteView

SHORT_BYTES = 4 * 1024
"""Up to how many bytes a field of a row is whole."""
LONG_BYTES = 64 * 1024
"""From how many bytes on a value is not even read for a row."""
CUT_TEXT, CUT_VALUE = 1000, 200
"""How many characters are left of a text, and of one value of several, that is cut; `…` at the end says so."""


@dataclass(slots=True)
class Shortening:
    """The shortening of one row, where it is wanted; `cut` has the sizes in bytes of those fields that are not whole."""

    wanted: bool
    cut: dict[str, int] = field(default_factory=dict)

    def keeps(self, name: str, text: str | None) -> bool:
        """Whether a field is shown whole, by its text."""
        return self._fits(name, 0 if text is None else jsontext.size_bytes(text))

    def text(self, name: str, text: str | None) -> str | None:
        """A text, cut if it is too long."""
        return text if text is None or self.keeps(name, text) else _cut(text, CUT_TEXT)

    def members(self, name: str, text: str) -> dict[str, Any]:
        """The object in a JSON text; if it is long, its first members with their values cut, and none if it is far too long.

        Raises:
            NotJson: The text is not strict JSON, or exceeds the bounds.
        """
        if self.keeps(name, text):
            return object_in(text)
        return {} if self.cut[name] > LONG_BYTES else _beginning(object_in(text))

    def notes(self, votes: tuple[VoteView, ...], comments: tuple[CommentView, ...]) -> dict[str, Any]:
        """Votes and comments; if they are too long together, each is cut."""
        if not self._fits("votes", sum(jsontext.size_bytes(f"{one.reason}{one.value}") for one in votes)):
            votes = tuple(one.model_copy(update={"reason": _cut(one.reason, CUT_VALUE), "value": None}) for one in votes)
        if not self._fits("comments", sum(jsontext.size_bytes(one.text) for one in comments)):
            comments = tuple(one.model_copy(update={"text": _cut(one.text, CUT_VALUE)}) for one in comments)
        return {"votes": votes, "comments": comments}

    def _fits(self, name: str, size: int) -> bool:
        if not self.wanted or size <= SHORT_BYTES:
            return True
        self.cut[name] = size
        return False


def object_in(text: str) -> dict[str, Any]:
    """The object in a JSON text; empty where the text is of something else.

    Raises:
        NotJson: The text is not strict JSON, or exceeds the bounds.
    """
    value = jsontext.loads(text)
    return value if isinstance(value, dict) else {}


def _beginning(members: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    left = SHORT_BYTES
    for name, value in members.items():
        said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        left -= min(jsontext.size_bytes(name), CUT_VALUE) + min(jsontext.size_bytes(said), CUT_VALUE)
        if left < 0:
            break
        found[_cut(name, CUT_VALUE)] = value if len(said) <= CUT_VALUE else _cut(said, CUT_VALUE)
    return found


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"
