"""Shortened rows of lists: a too long field is empty, and the row holds its length and beginning."""

from dataclasses import dataclass, field
from typing import Any

from holdfast.conversation.records.calls import CommentView, Cut, VoteView
from holdfast.conversation.text import jsontext

SHORT_BYTES = 4 * 1024
"""The most bytes of a field that stays whole."""
BEGINNING, NOTE = 500, 200
"""How many characters of a too long field, and of each vote and comment, are shown."""


@dataclass(slots=True)
class Shortening:
    """The shortening of one row, if wanted; `cut` has the shortened fields."""

    wanted: bool
    cut: dict[str, Cut] = field(default_factory=dict)

    def text(self, name: str, text: str | None) -> str | None:
        """The text of a field; None if it is too long or absent."""
        if text is None or self._fits(size_bytes := jsontext.size_bytes(text)):
            return text
        self.cut[name] = Cut(size_bytes=size_bytes, begins=text[:BEGINNING])
        return None

    def notes(self, votes: tuple[VoteView, ...], comments: tuple[CommentView, ...]) -> dict[str, Any]:
        """Votes and comments; if together they are too long, each is cut."""
        if not self._fits(sum(jsontext.size_bytes(f"{one.reason}{one.value}") for one in votes)):
            votes = tuple(one.model_copy(update={"reason": _cut(one.reason), "value": None}) for one in votes)
        if not self._fits(sum(jsontext.size_bytes(one.text) for one in comments)):
            comments = tuple(one.model_copy(update={"text": _cut(one.text)}) for one in comments)
        return {"votes": votes, "comments": comments}

    def _fits(self, size_bytes: int) -> bool:
        return not self.wanted or size_bytes <= SHORT_BYTES


def _cut(text: str) -> str:
    return text if len(text) <= NOTE else f"{text[:NOTE]}…"
