"""Globs: `*` stands for any characters, within a folder where the glob is a path, and `**` for folders, too."""

import re
from dataclasses import dataclass
from typing import Self

from .regex import literal

_TOKEN = re.compile(r"\*+|\\.|[?\[\]{}]|[^*\\?\[\]{}]+|\\", re.DOTALL)
_ELSEWHERE = "only * and ** are wildcards here: write {0} as \\{0}, or use a regular expression"


class BadGlob(ValueError):
    """The text is no glob; `at` is the place of the mistake in it."""

    def __init__(self, problem: str, at: int) -> None:
        super().__init__(problem, at)
        self.problem = problem
        self.at = at


@dataclass(frozen=True, slots=True)
class Glob:
    """A glob, read.

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
        r"""The glob in a text, where a backslash takes the next character as it stands.

        Raises:
            BadGlob: The text has what is a wildcard elsewhere (`?`, `[a-z]`, `{a,b}`), or ends in a backslash.
        """
        parts, stars = [""], []
        for token in _TOKEN.finditer(text):
            said = token[0]
            if said.startswith("*"):
                stars.append("**" if len(said) > 1 else "*")
                parts.append("")
            elif said == "\\":
                raise BadGlob("a backslash takes the next character as it stands, and there is none", token.start())
            elif said in "?[]{}":
                raise BadGlob(_ELSEWHERE.format(said), token.start())
            else:
                parts[-1] += said.removeprefix("\\")
        return cls(text, tuple(parts), tuple(stars))

    @property
    def literal(self) -> str | None:
        """The only text that the glob stands for; None if it has wildcards."""
        return None if self.stars else self.parts[0]

    @property
    def said(self) -> str:
        """What the glob says besides its wildcards, each of which is a `*` here."""
        return "*".join(self.parts)

    def expression(self, star: str, deep: str | None = None) -> str:
        """The regular expression of the glob, with these expressions for its wildcards.

        With one for `**`, the glob is a path's: `a/**/b` stands for `a/b`, too.
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
