"""Globs of commands in rules that deny or ask: `git push *` matches `git` with `push` among its words."""

from holdfast.conversation.text.confusables import skeleton
from holdfast.conversation.text.glob import Glob
from holdfast.conversation.text.regex import Regex, literal

_STAR = "\0"
_UNQUOTED = {ord(mark): None for mark in "'\"\\"}
SCRIPT = "\x04"
"""The mark of a line of words that scripts of the project are given."""
_MOST_WORDS = 64
_JOINTS = frozenset({"|", "||", "&&", "&"})


class CommandGlob:
    """A glob of commands: the name of a program, and words that must occur in this order among its words.

    Attributes:
        name: The program's name; None if it has wildcards.
        is_command: Whether the glob itself shows that it matches commands: it begins with a name, and words follow.
    """

    __slots__ = ("_behind", "_expression", "_named", "_program", "is_command", "name")

    def __init__(self, glob: Glob) -> None:
        said = _STAR.join(skeleton(part) for part in glob.parts).translate(_UNQUOTED)
        name, *words = said.split() or [_STAR]
        program = name.rpartition("/")[2] or name
        self.name = None if _STAR in program else program
        self.is_command = said.split(maxsplit=1) != [said] and not name.startswith(_STAR) and "://" not in name
        begin = rf"(?:[^\t\n]*/)?{_word(program)}(?:\.exe)?"
        wanted = [word for word in words if word != _STAR][:_MOST_WORDS]
        joined = f"(?:-{_word(words[0])})?" if words and _STAR not in words[0] else ""
        self._named = Regex(rf"\x02{begin}{joined}\t") if program != _STAR else None
        self._program = f"\x03{program}\t".split(_STAR) if program != _STAR else []
        self._behind = [part for word in wanted for part in f"\x03{word}\t".split(_STAR)] if self._program or wanted[1:] else []
        self._expression: Regex | None = None
        if _JOINTS.isdisjoint(words) and not name.endswith(";"):
            found, gap = rf"\x01{begin}", r"(?:\t(?:[^\n]*\t)?|-)\x01?"
            for word in wanted:
                found, gap = f"{found}{gap}{_word(word)}", r"\t(?:[^\n]*\t)?\x01?"
            self._expression = Regex(found + r"\t")

    def is_among(self, certain: str) -> bool:
        """Whether one of the commands in `Commands.certain` matches."""
        return self._expression is not None and self._expression.found(certain)

    def may_be_among(self, possible: str) -> bool:
        """Whether one in `Commands.possible` may match.

        Behind an unknown program the name alone is enough, behind a wrapper all words in any order, and behind a script of the
        project, which may be any program, the words without the name.
        """
        if self.is_among(possible) or (self._named is not None and self._named.found(possible)):
            return True
        lines = possible.split("\n") if self._behind and all(part in possible for part in self._behind) else ()
        behind = (line for line in lines if all(part in line for part in self._behind))
        return any(line.startswith(SCRIPT) or all(part in line for part in self._program) for line in behind)


def _word(word: str) -> str:
    return r"[^\t\n\x01]*".join(map(literal, word.split(_STAR)))
