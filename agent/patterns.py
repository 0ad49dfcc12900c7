r"""Patterns of permission rules: which tools and arguments a rule covers.

    read_file  file_*  mcp__github__*          the tool's name; `*` stands for any characters
    /mcp__.*__(get|list)_.*/                   the tool's name, by a regular expression
    Bash(npm *)                                and its primary argument, by a glob
    Edit(file_path ~ "src/**")                 and an argument of that name, by a glob: `**` stands for folders, too
    Bash(command =~ "(?i)\brm\b")              and an argument, by a regular expression
    Pay(currency = "EUR", to ~ "shop-*")       and several arguments, all of them

A pattern has two readings. A rule that *allows* must cover a call certainly: a text is compared as it stands, and one that
could mean more (a second command, a way out of a folder, another host) is not covered. A rule that *denies* or *asks* covers
every possible meaning: each part of a command, any case and look-alike letters, percent-encoded text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from holdfast.conversation.text.confusables import is_plain, skeleton
from holdfast.conversation.text.glob import BadGlob, Glob
from holdfast.conversation.text.matching import LONGEST as LONGEST_TEXT
from holdfast.conversation.text.matching import Matcher, has_clear_hosts, leads_up
from holdfast.conversation.text.regex import BadRegex, Regex

from .command_glob import CommandGlob
from .loose import LooseGlob, LooseRegex, LooseText
from .readings import Readings

LONGEST = 1024
"""The most characters of a pattern."""
MOST_CONDITIONS = 16
_NAME = re.compile(r"[A-Za-z0-9_*-]{1,128}")
_ARGUMENT = re.compile(r"\s*(?P<argument>[A-Za-z_][A-Za-z0-9_.-]{0,127})\s*(?P<comparison>=~|~|=)\s*(?=\")")
_UNQUOTED = re.compile(r"\s*[A-Za-z_][A-Za-z0-9_.-]*(?:\s*=?~|\s+=)\s*(?=[^\s=])")
_NETWORK = re.compile(r"(?:[0-9]+(?:\.[0-9]+){3}|[0-9a-fA-F:]*:[0-9a-fA-F:]*)/(?P<bits>[0-9]{1,3})")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class BadPattern(ValueError):
    """A text that is not a pattern; `at` is the place of the mistake in it."""

    def __init__(self, problem: str, at: int) -> None:
        super().__init__(problem, at)
        self.problem = problem
        self.at = at


class Comparison(StrEnum):
    """How an argument is compared with a text."""

    EQUALS = "="  # it is the text
    GLOB = "~"  # the glob covers it
    REGEX = "=~"  # matched whole by rules that allow, searched for by rules that deny or ask


class Strict(Protocol):
    """A comparison that must hold certainly."""

    def covers(self, text: str, /) -> bool:
        """Whether the text certainly matches."""


class Loose(Protocol):
    """A comparison that may hold in any reading."""

    def may_cover(self, value: Readings, /) -> bool:
        """Whether the value matches in any reading."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on an argument.

    Attributes:
        argument: The argument's name, with dots into objects; None for the tool's primary argument.
        comparison: How it is compared.
        text: What it is compared with.
        strict: The comparison for rules that allow.
        loose: The comparison for rules that deny or ask.
        command: The comparison with commands for rules that deny or ask; None if it is not a glob of commands.
    """

    argument: str | None
    comparison: Comparison
    text: str
    strict: Strict = field(repr=False, compare=False)
    loose: Loose = field(repr=False, compare=False)
    command: CommandGlob | None = field(default=None, repr=False, compare=False)

    def is_exactly(self, text: str) -> bool:
        """Whether the condition matches this text and no other."""
        literal = self.comparison is Comparison.GLOB and len(text) <= len(self.text) and Glob.of(self.text).literal
        return self.comparison is Comparison.EQUALS or literal == text


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed pattern.

    Attributes:
        text: The pattern as it was written.
        tool: The tool's name: a glob, or a regular expression.
        regex: The regular expression, if it is one.
        conditions: The conditions on its arguments, which must all hold.
    """

    text: str
    tool: str
    regex: Regex | None = field(repr=False, compare=False)
    conditions: Sequence[Condition]
    strict_name: Regex = field(repr=False, compare=False)
    loose_name: Regex = field(repr=False, compare=False)

    @property
    def names_in_full(self) -> bool:
        """Whether it names one tool in full."""
        return self.regex is None and "*" not in self.tool

    def names(self, tool: str) -> bool:
        """Whether the pattern certainly names a tool."""
        return self.strict_name.matches(tool)

    def may_name(self, tool: str) -> bool:
        """Whether the pattern may name a tool, look-alike names included."""
        if self.regex is not None:
            return self.regex.found(tool) or self.regex.found(skeleton(tool))
        return self.loose_name.matches(skeleton(tool))


class StrictText:
    """A text that is compared as it stands."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def covers(self, text: str) -> bool:
        """Whether it is the text."""
        return text == self._text


class StrictRegex:
    """A regular expression that must cover a text certainly.

    `npm .*` is not meant to allow `;`. A part that can give a text another meaning (`;`, `$`, `@`, a newline, `..`) is covered
    only if the expression itself contains it, escaped if it is special there.
    """

    __slots__ = ("_doubtful", "_regex", "_up")

    def __init__(self, regex: Regex) -> None:
        self._regex = regex
        said = re.sub(r"\(\?P?<\w+>", "(", regex.pattern)
        backslash, said = r"\\" in said, said.replace(r"\\", "\0")  # an escaped backslash escapes nothing
        doubtful = {char for char in ";&`<>!#%@~" if char not in said}
        doubtful |= {char for char in "|$(){}[]\\^?" if f"\\{char}" not in said}
        doubtful |= {char for name, char in (("n", "\n"), ("r", "\r"), ("t", "\t")) if f"\\{name}" not in said}
        self._doubtful = frozenset(doubtful - {"\\"} if backslash else doubtful)
        self._up = r"\.\." in said

    def covers(self, text: str) -> bool:
        """Whether the expression matches the whole text and contains each of its risky characters."""
        if len(text) > LONGEST_TEXT or not self._doubtful.isdisjoint(text) or (leads_up(text) and not self._up):
            return False
        if not has_clear_hosts(text):
            return False
        return is_plain(re.sub(r"[\t\r\n]", " ", text)) and self._regex.matches(text)


def parsed(text: str) -> Pattern:
    """The pattern in a text."""
    if not text or len(text) > LONGEST:
        raise BadPattern(f"a pattern has 1 to {LONGEST} characters", min(len(text), LONGEST))
    for at, char in enumerate(text):
        if not char.isprintable():
            raise BadPattern("a pattern is one line of visible characters", at)
    regex: Regex | None = None
    if text.startswith("/"):
        end = _end_of_regex(text)
        tool, at = text[1:end], end + 1
        regex = _regex(tool, 1)
        strict = loose = regex
    else:
        name = _NAME.match(text)
        if name is None:
            raise BadPattern("begin with a tool's name, in which * stands for any characters", 0)
        tool, at = name[0], name.end()
        strict = Regex(Glob.of(tool).expression("[A-Za-z0-9_-]*"))
        loose = Regex(Glob.of(skeleton(tool)).expression(r"[^\n]*"))
    if at == len(text):
        return Pattern(text, tool, regex, (), strict, loose)
    if text[at] != "(" or not text.endswith(")"):
        raise BadPattern("after the tool's name comes nothing, or a condition on its arguments in ( )", at)
    return Pattern(text, tool, regex, tuple(_conditions(text, at + 1, len(text) - 1)), strict, loose)


def _end_of_regex(text: str) -> int:
    bare, opened = text.rfind("/"), text.find("/(", 1)
    end = opened if opened > 1 and text.endswith(")") else bare
    if end < 2 or (end != len(text) - 1 and text[end + 1] != "("):  # noqa: PLR2004 - the second slash, with something before it
        raise BadPattern("a regular expression for a tool's name ends in /", len(text))
    return end


def _conditions(text: str, at: int, end: int) -> list[Condition]:
    if not text[at:end].strip():
        raise BadPattern("say in ( ) what the arguments must be, or leave the ( ) out", at)
    found: list[Condition] = []
    while True:
        begin = _ARGUMENT.match(text, at, end)
        if begin is None:
            if found:
                raise BadPattern('write conditions as argument ~ "text", with =, ~ or =~, separated by commas', at)
            return [_primary(text[at:end], at)]
        quoted = _QUOTED.match(text, begin.end(), end)
        if quoted is None:
            raise BadPattern('the text of a condition ends in "', begin.end())
        found.append(_condition(begin["argument"], Comparison(begin["comparison"]), quoted[1], quoted.start(1)))
        if len(found) > MOST_CONDITIONS:
            raise BadPattern(f"a pattern has at most {MOST_CONDITIONS} conditions", at)
        at = quoted.end()
        rest = text[at:end]
        if not rest.strip():
            return found
        if not rest.lstrip().startswith(","):
            raise BadPattern("separate conditions with commas", at)
        at = text.index(",", at) + 1


def _primary(text: str, at: int) -> Condition:
    if unquoted := _UNQUOTED.match(text):
        raise BadPattern('the text of a condition stands in quotes: argument ~ "text"', at + unquoted.end())
    if text.endswith(":*") and not text.endswith("\\:*"):
        problem = ":* is no wildcard here: write a space and * for any words (`npm *`), or \\:* for a colon"
        raise BadPattern(problem, at + len(text) - 2)
    return _glob(None, text, at)


def _condition(argument: str, comparison: Comparison, said: str, at: int) -> Condition:
    r"""A condition with a quoted text: `\"` is a quotation mark in it; other backslashes belong to the comparison."""
    match comparison:
        case Comparison.GLOB:
            return _glob(argument, _ESCAPE.sub(_unquoted, said), at)
        case Comparison.REGEX:
            regex = _regex(_ESCAPE.sub(_unquoted, said), at)
            return Condition(argument, comparison, regex.pattern, StrictRegex(regex), LooseRegex(regex))
        case Comparison.EQUALS:
            for escape in _ESCAPE.finditer(said):
                if escape[1] not in '"\\':
                    raise BadPattern(r"in a text that is compared as it stands, a backslash is written \\", at + escape.start())
            text = _ESCAPE.sub(r"\1", said)
            return Condition(argument, comparison, text, StrictText(text), LooseText(text))


def _unquoted(escape: "re.Match[str]") -> str:
    return '"' if escape[1] == '"' else escape[0]


def _glob(argument: str | None, text: str, at: int) -> Condition:
    if network := _NETWORK.fullmatch(text):
        raise BadPattern("a network is written as a glob: 10.0.*, or fd00\\:*", at + network.start("bits"))
    try:
        glob = Glob.of(text)
        command = CommandGlob(glob) if any(char.isspace() for char in glob.said) or "/" not in glob.said else None
        return Condition(argument, Comparison.GLOB, text, Matcher(glob), LooseGlob(glob), command)
    except BadGlob as error:
        raise BadPattern(error.problem, at + error.at) from None
    except BadRegex as error:
        raise BadPattern(str(error), at) from None


def _regex(pattern: str, at: int) -> Regex:
    try:
        return Regex(pattern)
    except BadRegex as error:
        raise BadPattern(f"{error} (it cannot look around, (?=, nor refer back, \\1)", at) from None
