"""The difference between two JSON values, line by line, as a person compares them."""

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from .text import as_json

MOST_LINES = 800
"""How many lines are compared; of longer values only the texts stand beside each other."""

_LINE_END = re.compile(r"(?<!\\)((?:\\\\)*)\\n")  # as JSON has it within a text


@dataclass(frozen=True, slots=True)
class Line:
    """One line: as it was, as it is now, or in both."""

    change: Literal["same", "removed", "added"]
    text: str


def difference(before: Any, after: Any) -> list[Line]:
    """The lines of both values, those that differ marked; empty if the values are equal."""
    if before == after and as_json(before) == as_json(after):
        return []
    old, new = _lines(before), _lines(after)
    if len(old) + len(new) > MOST_LINES:
        return [Line("removed", "\n".join(old)), Line("added", "\n".join(new))]
    found: list[Line] = []
    for what, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            found += (Line("same", line) for line in old[i1:i2])
        else:
            found += (Line("removed", line) for line in old[i1:i2])
            found += (Line("added", line) for line in new[j1:j2])
    return found


def _lines(value: Any) -> list[str]:
    """The lines of a value's JSON; a text of several lines has those of its own."""
    return _LINE_END.sub(r"\1\n", as_json(value)).split("\n")
