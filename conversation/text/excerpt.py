"""Excerpts of a tool's result: its beginning as a preview, a page of it, and the places of a text in it.

Offsets count the characters of the result's text: the string that the tool returned, or the JSON text of any other value; of a
failed call, the error. An excerpt stands inside an envelope as a JSON string, so it cannot pose as one.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from . import jsontext
from .envelope import success
from .jsontext import JsonText
from .tokens import text_tokens

PREVIEW_CHARACTERS = 1600
PREVIEW_LINES = 24
PAGE_CHARACTERS = 4000
"""The most characters of a result that are read at once."""
FIND_CHARACTERS = 200
MOST_PLACES = 20
"""The most places of a text that are shown at once."""
PLACE_CHARACTERS = 200
"""How many characters are shown of each place, the text itself included."""


class NoExcerpt(Exception):
    """A result has nothing at the offset that was asked for; the message has its size."""


@dataclass(frozen=True, slots=True)
class ResultText:
    """The text of a result.

    Attributes:
        ok: Whether the call succeeded.
        marks: What else its envelope says, such as `untrusted`.
    """

    text: str
    ok: bool
    marks: Mapping[str, Any]

    @classmethod
    def of(cls, content: JsonText) -> Self:
        """The text of the result with this envelope; of a content that is no envelope, the content itself."""
        try:
            found = jsontext.loads(content)
        except jsontext.NotJson:
            found = None
        if not isinstance(found, dict):
            return cls(content, ok=False, marks={})
        ok = found.pop("ok", None) is True
        value = found.pop("result" if ok else "error", None)
        return cls(value if isinstance(value, str) else jsontext.dumps(value), ok=ok, marks=found)


def preview(content: JsonText, call: str, most: int) -> JsonText:
    """What is sent in place of a result's envelope: its first lines, its size and its marks.

    It has at most 1,600 characters, 24 lines, and `most` characters.
    """
    found = ResultText.of(content)
    lines = found.text[: min(PREVIEW_CHARACTERS, most)].split("\n", PREVIEW_LINES)
    begins = "\n".join(lines[:PREVIEW_LINES])
    size = {"characters": len(found.text), "lines": found.text.count("\n") + 1, "tokens": text_tokens(content)}
    return jsontext.dumps({"ok": found.ok, "preview": begins, "shown": len(begins), **size, "call": call, **found.marks})


def page(content: JsonText, call: str, *, offset: int, limit: int, most_bytes: int) -> JsonText:
    """The envelope of at most `limit` characters of a result from `offset`, as many as `most_bytes` have room for.

    Raises:
        NoExcerpt: The offset is not within the result.
    """
    found = ResultText.of(content)
    size = _size(found, call, offset)

    def made(number: int) -> JsonText:
        text = found.text[offset : offset + number]
        value = {"call": call, "ok": found.ok, "offset": offset, "end": offset + len(text), **size, "text": text}
        return _envelope(found, value)

    return _fitting(made, min(limit, max(len(found.text) - offset, 1)), most_bytes)


def places(content: JsonText, call: str, find: str, *, offset: int, limit: int, most_bytes: int) -> JsonText:
    """The envelope of the first places of a text in a result from `offset`, and of their number from there on (`found`).

    Shown are at most 20 places with 200 characters each, of `limit` characters together, as many as `most_bytes` have room for.

    Raises:
        NoExcerpt: The offset is not within the result.
    """
    found = ResultText.of(content)
    about = {"call": call, "ok": found.ok, **_size(found, call, offset), "found": found.text.count(find, offset)}
    standing = list(_standing(found.text, find, offset))

    def made(characters: int) -> JsonText:
        width = min(characters, PLACE_CHARACTERS)
        shown = [
            {"offset": at, "line": line, "text": _around(found.text, at, len(find), width)}
            for at, line in standing[: max(characters // PLACE_CHARACTERS, 1)]
        ]
        return _envelope(found, {**about, "places": shown})

    return _fitting(made, limit, most_bytes)


def _standing(text: str, find: str, offset: int) -> Iterator[tuple[int, int]]:
    """The offsets and lines of the first places of a text."""
    at, line, counted = text.find(find, offset), 1, 0
    for _ in range(MOST_PLACES):
        if at < 0:
            return
        line, counted = line + text.count("\n", counted, at), at
        yield at, line
        at = text.find(find, at + len(find))


def _around(text: str, at: int, length: int, width: int) -> str:
    begins = max(at - max(width - length, 0) // 2, 0)
    return text[begins : begins + width]


def _size(found: ResultText, call: str, offset: int) -> dict[str, int]:
    """The size of a result, once it is known to have something at the offset."""
    characters = len(found.text)
    if offset >= max(characters, 1):
        raise NoExcerpt(f"offset {offset} is beyond the end: the result of {call} has {characters} characters")
    return {"characters": characters}


def _envelope(found: ResultText, value: dict[str, Any]) -> JsonText:
    return success(jsontext.dumps(value), untrusted=found.marks.get("untrusted") is True)


def _fitting(made: Callable[[int], JsonText], number: int, most_bytes: int) -> JsonText:
    """What is made of the largest number that fits, or of 1 if none does."""
    while (size := jsontext.size_bytes(envelope := made(number))) > most_bytes and number > 1:
        number = max(min(number * most_bytes // size, number - 1), 1)
    return envelope
