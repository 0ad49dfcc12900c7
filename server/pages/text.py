"""Texts of models and people as pages show them: whole, as data, with each character that nobody could see as its escape."""

import json
from datetime import UTC, datetime
from typing import Any

from holdfast.visible import without_hidden

SUMMARY_LENGTH = 240
"""How many characters of a call's arguments stand in its row of a list; the call's own page has them all."""
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def visible(text: object) -> str:
    """A text in lines, in which each character that is drawn as nothing, or turns the order of text, is its escape."""
    return without_hidden(str(text).replace("\r\n", "\n"), lambda char: ascii(char)[1:-1], kept="\n\t")


def one_line(text: object, length: int = SUMMARY_LENGTH) -> str:
    """A text in one line, cut to a length."""
    line = " ".join(visible(str(text)[: 4 * length]).split())
    return line if len(line) <= length and len(str(text)) <= 4 * length else f"{line[: length - 1]}…"


def as_json(value: Any) -> str:
    """The JSON text of a value in lines, in which every character is seen; a parser reads the same value from it."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return without_hidden(text, lambda char: json.dumps(char)[1:-1], kept="\n")


def shown(value: Any) -> str:
    """A value as a person reads it: a text as it is, anything else as JSON."""
    return visible(value) if isinstance(value, str) else as_json(value)


def summary(arguments: Any) -> str:
    """The arguments of a call in one bounded line: `amount 42, order "A1"`."""
    if not isinstance(arguments, dict):
        return one_line(json.dumps(arguments, ensure_ascii=False, default=str))
    parts, length = [], 0
    for name, value in arguments.items():
        if length > SUMMARY_LENGTH:
            break
        said = value[: 4 * SUMMARY_LENGTH] if isinstance(value, str) else value
        part = f"{name} {json.dumps(said, ensure_ascii=False, default=str)[: 4 * SUMMARY_LENGTH]}"
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
    """A moment (ms UTC) as HTML's `datetime` has it."""
    return _moment(at).isoformat(timespec="seconds").replace("+00:00", "Z")


def clock(at: int) -> str:
    """A moment (ms UTC) as a person reads it where the page's script does not put it into local time."""
    return _moment(at).strftime("%Y-%m-%d %H:%M:%S UTC")


def _moment(at: int) -> datetime:
    return datetime.fromtimestamp(min(max(at, 0), 253_402_300_799_000) / 1000, UTC)
