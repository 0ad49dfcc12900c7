"""Texts of models and people as pages show them: whole, as data, and with invisible characters as escapes."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from holdfast.visible import without_hidden

SUMMARY_LENGTH = 240
"""How many characters of a call's arguments its row in a list shows; the call's own page has them all."""
LONG_LINES, LONG_TEXT = 12, 1200
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,80}")
_LITERAL = re.compile(r"[-+.0-9][-+.0-9eE_]*|true|false|null|NaN|-?Infinity|\[.*\]|\{.*\}|\".*\"", re.DOTALL)
_BLANK = "[ \t\u00a0\u202f\u3000]"
_GAP = re.compile(rf"(?:{_BLANK}*\n){{4,}}|(?<=\S){_BLANK}{{16,}}|{_BLANK}{{80,}}")  # leading blanks may be an indent
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def visible(text: object) -> str:
    """A text in lines; characters that are invisible, or change the order of text, become escapes."""
    return without_hidden(str(text).replace("\r\n", "\n"), lambda char: ascii(char)[1:-1], kept="\n\t")


def one_line(text: object, length: int = SUMMARY_LENGTH) -> str:
    """A text in one line, cut to a length."""
    line = " ".join(visible(str(text)[: 4 * length]).split())
    return line if len(line) <= length and len(str(text)) <= 4 * length else f"{line[: length - 1]}…"


def as_json(value: Any) -> str:
    """The JSON text of a value in lines, with every character visible; a parser reads the same value from it."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return without_hidden(text, lambda char: json.dumps(char)[1:-1], kept="\n")


def shown(value: Any) -> str:
    """A value for people: a text as it is, anything else as JSON."""
    return visible(value) if isinstance(value, str) else as_json(value)


def named(key: str) -> str:
    """The name of an argument; one that is no plain word is shown as JSON, so that no two look the same."""
    return key if _PLAIN.fullmatch(key) else as_json(key)


def reads_as_another(text: str) -> bool:
    """Whether a text could be mistaken for another JSON value or for nothing: it is then shown as JSON."""
    return not text.strip() or text != text.strip() or _LITERAL.fullmatch(text) is not None


def parts(text: str) -> Iterator[tuple[str, str]]:
    """A text in parts: the visible text, and for each long run of blanks or empty lines a note for people."""
    at = 0
    for found in _GAP.finditer(text):
        lines = found[0].count("\n")
        yield text[at : found.start()], f"{lines - 1} empty lines" if lines else f"{len(found[0])} blanks"
        at = found.end()
    yield text[at:], ""


def size(text: str) -> str:
    """The length of a text that is too long to be seen at once; else empty."""
    lines = text.count("\n") + 1
    return f"{lines} lines" if lines > LONG_LINES else f"{len(text)} characters" if len(text) > LONG_TEXT else ""


def summary(arguments: Any) -> str:
    """The arguments of a call in one bounded line: `amount 42, order "A1"`."""
    if not isinstance(arguments, dict):
        return one_line(json.dumps(arguments, ensure_ascii=False, default=str))
    parts, length = [], 0
    for name, value in arguments.items():
        if length > SUMMARY_LENGTH:
            break
        said = value[: 4 * SUMMARY_LENGTH] if isinstance(value, str) else value
        part = f"{named(name[:SUMMARY_LENGTH])} {json.dumps(said, ensure_ascii=False, default=str)[: 4 * SUMMARY_LENGTH]}"
        parts.append(part)
        length += len(part) + 2
    return one_line(", ".join(parts))


def span(milliseconds: float) -> str:
    """A length of time in its largest unit: `6 d`, `40 min`."""
    seconds = max(int(milliseconds), 0) // 1000
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return "0 s"


def iso(at: int) -> str:
    """A time (ms UTC) for HTML's `datetime`."""
    return _moment(at).isoformat(timespec="seconds").replace("+00:00", "Z")


def clock(at: int) -> str:
    """A time (ms UTC) for people, where the page's script does not convert it to local time."""
    return _moment(at).strftime("%Y-%m-%d %H:%M:%S UTC")


def _moment(at: int) -> datetime:
    return datetime.fromtimestamp(min(max(at, 0), 253_402_300_799_000) / 1000, UTC)
