"""Rows of lists in short: a field that is too long for a row is empty there, and the row says its length and beginning."""

from dataclasses import dataclass, field
from typing import Any

from holdfast.conversation.records.calls import CommentView, Cut, VoteView
from holdfast.conversation.text import jsontext

SHORT_BYTES = 4 * 1024
"""Up to how many bytes a field of a row is whole."""
BEGINNING, NOTE = 500, 200
"""How many characters are told of the beginning of a field that is not whole, and are left of each vote and comment."""


@dataclass(slots=True)
class Shortening:
    """The shortening of one row, where it is wanted; `cut` has the fields that are not whole."""

    wanted: bool
    cut: dict[str, Cut] = field(default_factory=dict)

    def text(self, name: str, text: str | None) -> str | None:
        """The text of a field; None if it is too long, or there is none."""
        if text is None or self._fits(size_bytes := jsontext.size_bytes(text)):
            return text
        self.cut[name] = Cut(size_bytes=size_bytes, begins=text[:BEGINNING])
        return None

    def notes(self, votes: tuple[VoteView, ...], comments: tuple[CommentView, ...]) -> dict[str, Any]:
        """Votes and comments; if they are too long together, each is cut."""
        if not self._fits(sum(jsontext.size_bytes(f"{one.reason}{one.value}") for one in votes)):
            votes = tuple(one.model_copy(update={"reason": _cut(one.reason), "value": None}) for one in votes)
        if not self._fits(sum(jsontext.size_bytes(one.text) for one in comments)):
            comments = tuple(one.model_copy(update={"text": _cut(one.text)}) for one in comments)
        return {"votes": votes, "comments": comments}

    def _fits(self, size_bytes: int) -> bool:
        return not self.wanted or size_bytes <= SHORT_BYTES


def _cut(text: str) -> str:
    return text if len(text) <= NOTE else f"{text[:NOTE]}…"
