"""Globs: `*` stands for any characters (in a path, within one folder), and `**` also for folders."""

import re
from dataclasses import dataclass
from typing import Self

from .regex import literal

_TOKEN = re.compile(r"\*+|\\.|[?\[\]{}]|[^*\\?\[\]{}]+|\\", re.DOTALL)
_ELSEWHERE = "only * and ** are wildcards here: write {0} as \\{0}, or use a regular expression"


class BadGlob(ValueError):
    """The text is not a glob; `at` is the index of the mistake."""

    def __init__(self, problem: str, at: int) -> None:
        super().__init__(problem, at)
        self.problem = problem
        self.at = at


@dataclass(frozen=True, slots=True)
class Glob:
    """A parsed glob.

    Attributes:
        text: The glob as it was written.
        parts: The texts between its wildcards: one more than there are wildcards.
        stars: Its wildcards in order, `*` or `**`.
    """

    text: str
    parts: tuple[str, ...]
    stars: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Self:
        r"""The glob of a text, in which a backslash escapes the next character; `?`, `[` and `{` are a `BadGlob`."""
        parts, stars = [""], []
        for token in _TOKEN.finditer(text):
            said = token[0]
            if said.startswith("*"):
                stars.append("**" if len(said) > 1 else "*")
                parts.append("")
            elif said == "\\":
                raise BadGlob("no character follows the backslash, which escapes the next one", token.start())
            elif said in "?[]{}":
                raise BadGlob(_ELSEWHERE.format(said), token.start())
            else:
                parts[-1] += said.removeprefix("\\")
        return cls(text, tuple(parts), tuple(stars))

    @property
    def literal(self) -> str | None:
        """The only text that the glob matches; None if it has wildcards."""
        return None if self.stars else self.parts[0]

    @property
    def said(self) -> str:
        """The glob with `*` for each wildcard."""
        return "*".join(self.parts)

    def expression(self, star: str, deep: str | None = None) -> str:
        """The regular expression of the glob, with `star` and `deep` for its wildcards `*` and `**`.

        With `deep`, the glob is a path's: `a/**/b` also matches `a/b`.
        """
        found = literal(self.parts[0])
        for number, (kind, part) in enumerate(zip(self.stars, self.parts[1:], strict=True)):
            before = self.parts[number]
            if kind == "*" or deep is None:
                found += star + literal(part)
            elif part.startswith("/") and (before.endswith("/") or (before == "" and number == 0)):
                found += f"(?:{deep}{literal('/')})?{literal(part[1:])}"
            else:
                found += deep + literal(part)
        return found
