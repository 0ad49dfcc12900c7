"""The difference between two JSON values, line by line, for people."""

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from .text import as_json

MOST_LINES, MOST_PAIRS = 800, 20_000
"""The most lines, and pairs of lines, that are compared; longer differing texts stand one after the other."""
BESIDE = 20

_LINE_END = re.compile(r"(?<!\\)((?:\\\\)*)\\n")  # an escaped line break in JSON text


@dataclass(frozen=True, slots=True)
class Line:
    """One line: as it was, as it is now, or both."""

    change: Literal["same", "removed", "added"]
    text: str


def difference(before: Any, after: Any) -> list[Line]:
    """The lines of both values, with the differing ones marked; empty if the values are equal."""
    if before == after and as_json(before) == as_json(after):
        return []
    old, new = _lines(before), _lines(after)
    head = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), min(len(old), len(new)))
    tails = zip(reversed(old[head:]), reversed(new[head:]), strict=False)
    tail = next((at for at, (one, other) in enumerate(tails) if one != other), min(len(old), len(new)) - head)
    same, rest = [Line("same", line) for line in old[:head]], [Line("same", line) for line in old[len(old) - tail :]]
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(same) + len(rest) > MOST_LINES:  # of unchanged lines, those around the change are enough
        same = [Line("same", f"({len(same) - BESIDE} lines)"), *same[-BESIDE:]] if len(same) > BESIDE else same
        rest = [*rest[:BESIDE], Line("same", f"({len(rest) - BESIDE} lines)")] if len(rest) > BESIDE else rest
    if len(old) * len(new) > MOST_PAIRS or len(old) + len(new) > MOST_LINES:
        gone = [Line("removed", "\n".join(old))] if old else []
        come = [Line("added", "\n".join(new))] if new else []
        return [*same, *gone, *come, *rest]
    found: list[Line] = same
    for what, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            found += (Line("same", line) for line in old[i1:i2])
        else:
            found += (Line("removed", line) for line in old[i1:i2])
            found += (Line("added", line) for line in new[j1:j2])
    return found + rest


def _lines(value: Any) -> list[str]:
    """The lines of a value's JSON; a text of several lines gets lines of its own."""
    return _LINE_END.sub(r"\1\n", as_json(value)).split("\n")
