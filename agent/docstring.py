"""The parts of a docstring that the model reads."""

import inspect
import re
from typing import NamedTuple

_SECTION = re.compile(r"^(args|arguments|parameters):\s*$", re.IGNORECASE)
_ENTRY = re.compile(r"^\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?:\s*(?P<text>.*)$")


class Docstring(NamedTuple):
    """The first paragraph, and the text of each parameter in a Google-style section `Args:`; one line each."""

    summary: str
    parameters: dict[str, str]


def parse(text: str | None) -> Docstring:
    """The parts of a docstring, each empty if it is missing."""
    lines = inspect.cleandoc(text or "").splitlines()
    first = next((index for index, line in enumerate(lines) if not line.strip() or _SECTION.match(line)), len(lines))
    start = next((index + 1 for index, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    return Docstring(" ".join(line.strip() for line in lines[:first]), _entries(lines[start:]))


def _entries(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    margin = 0
    current: list[str] = []
    for line in lines:
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        if indent == 0:
            break  # the next section
        margin = margin or indent
        entry = _ENTRY.match(line.strip()) if indent <= margin else None
        if entry:
            current = found.setdefault(entry["name"], [])
            current.append(entry["text"])
        else:
            current.append(line.strip())
    return {name: " ".join(part for part in parts if part) for name, parts in found.items() if any(parts)}
