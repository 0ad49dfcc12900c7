"""Whether a plain text runs what its words do not say.

It does unless it is understood: a pipe leads into filters alone, what a shell or an interpreter runs was there before anything
in the text could make it, and no builtin changes what names mean. Behind any other program each word may be a command.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise, takewhile

from holdfast.conversation.matching import PLAIN_PART, is_plain_script

from .programs import (
    BUILTINS,
    FED,
    HANDLING,
    INERT,
    INTERPRETERS,
    KEEPING,
    LIKE_BASH,
    OF_THE_SHELL,
    PIPED,
    POURING,
    SHELLS,
    SOURCES,
    TOOLS,
    WRAPPERS,
    kind_of,
    name_of,
)

TOKEN = re.compile(rf"(\n|;|&&|\|\|?)|((?:{PLAIN_PART})++)")
ASSIGNMENT = re.compile(r"[a-z_]\w*\+?=", re.IGNORECASE)
_QUOTED = re.compile(r"'([^']*)'|\"((?:\\.|[^\"\\])*)\"|\\(.)", re.DOTALL)
_RULING = re.compile(
    r"(?:(?:cd|exec)?path|home|env|ifs|ps\d|optind|seconds|lineno"
    r"|(?:s?random|prompt|hist|bash|shell|ld_|dyld_|git_|make|less|perl5)\w*"
    r"|\w*(?:opts?|editor|pager|command|startup|shell|wrapper|runner|rsh|visual|browser))(?:\+?=.*)?"
    r"|[a-z_]\w*\+?=.*[$`?*\[{\\].*",
    re.IGNORECASE | re.DOTALL,
)
"""An assignment by which a shell or a program may run others than the words say, or one that is a command."""
_OPENING = frozenset({"if", "then", "else", "elif", "fi", "do", "done"})
_AWK = re.compile(r"system|getline|(?<!\|)\|(?!\|)|@")
_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n\[]|\\[^\n]|\[\^?[^/\[\]\\\n^]+\])*/)"
_SUBSTITUTION = r"s([/,|#:@])(?:(?!\1)[^\\\n\[]|\\[^\n]|\[\^?(?:(?!\1)[^\[\]\\\n^])+\])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gip\d]*"
_SED_STEP = re.compile(rf"\s*+(?:{_ADDRESS}(?:,{_ADDRESS})?)?\s*+!?\s*+(?:[pdqn=]|{_SUBSTITUTION})?\s*+", re.IGNORECASE)
_SED_OPTION = re.compile(r"-[nErsuzi]+|-e")
_SHELL_OPTION, _SHELL_TEXT = re.compile(r"-[eux]+"), re.compile(r"-[leux]*c")
_PYTHON_OPTION = re.compile(r"-[uBOsEI]+")
_MAKE_OPTION = re.compile(r"-[Bksn]*j?\d*|-C")
_VERSION = frozenset({"--version", "--help", "-V", "-v"})
_ACTS = re.compile(r"-exec|-ok|-fprint|-fls|-x$|-X$|--exec")
_PLACE = re.compile(r"\$[\d@*#!?$-]")
_NAMES = re.compile(r"[\s=,:;]+")
_SYSTEM = re.compile(r"/(?:usr/)?(?:local/)?s?bin/[\w.+-]+")
_PIPED_BLOCK = re.compile(r"(?:^|[\s;])fi\s*+\|(?!\|)")
_OUTPUT = re.compile("-o|--out").match
_SPECIAL = re.compile(r"-|.*[^\w./@=:+-]", re.DOTALL).match
_MOST_WORDS = 64


def unquoted(word: str) -> str:
    """A word without its quotes."""
    return _QUOTED.sub(lambda found: found[1] or re.sub(r'\\(["\\$`])', r"\1", found[2] or "") or found[3] or "", word)


def hides(text: str, known: frozenset[str] = frozenset()) -> bool:
    """Whether a text runs what its words do not say, as far as can be told.

    Args:
        text: The text, in the letters in which it runs.
        known: Programs of which rules say what their words are: these run no others.
    """
    return not is_plain_script(text) or _Text(known).hides(text)


@dataclass
class _Text:
    """What the commands of a text have done so far."""

    known: frozenset[str]
    has_written: bool = False  # a file may hold now what it did not before
    has_poured: bool = False  # of what a command of the text said
    named: dict[str, set[str]] = field(default_factory=dict)  # by what may be a file's name: the programs that named it

    def hides(self, text: str) -> bool:
        commands = list(_commands(text))
        for place, (before, words, piped) in enumerate(commands):
            if not piped:  # what reads a pipe writes while its first command runs
                for _, reading, _ in takewhile(lambda one: one[2], islice(commands, place + 1, None)):
                    self._name(reading[1:], kind_of(reading[0]) if reading else "")
            if self._command(before, words, piped=piped):
                return True
        return _PIPED_BLOCK.search(text) is not None

    def _command(self, before: list[str], words: list[str], *, piped: bool) -> bool:
        if any(map(_RULING.fullmatch, before)) or (piped and not _OPENING.isdisjoint(before)):
            return True
        if any((self.has_written and "/" in one) or not self.named.keys().isdisjoint(_names(one)) for one in before):
            return True
        if not words:
            return False
        kind = kind_of(words[0])
        if (piped and (kind not in PIPED or _is_of_the_project(words[0]))) or self.named.get(
            name_of(words[0]).lower(), set()
        ) - {kind}:
            return True
        if _is_inert(kind, words):
            return False
        if len(words) > _MOST_WORDS or any(map(_RULING.fullmatch, words[1:] if kind in WRAPPERS | BUILTINS else ())):
            return True
        if kind not in self.known and any(map(_PLACE.search, words)) and kind != "awk":
            return True
        hidden = self._runs(kind, words)
        self._wrote(kind, words)
        return hidden

    def _runs(self, kind: str, words: list[str]) -> bool:
        wraps = kind in WRAPPERS
        keeps = kind in KEEPING or (kind == "git" and not self.has_poured and not HANDLING.isdisjoint(words[1:2]))
        if self.has_poured and not keeps:
            return True
        if not keeps:
            found = {name for word in words for name in _names(word)}
            if any(self.named[name] - {kind} for name in found & self.named.keys()):
                return True
        if self.has_written and any(map(_is_of_the_project, words if wraps else words[:1])):
            return True
        starts = range(1 if keeps or (kind in self.known and not wraps) else len(words))
        return any(
            self._starts(words[start:], within=start > 0 and kind not in OF_THE_SHELL)
            for start in starts
            if kind not in TOOLS or kind_of(words[start]) not in FED or any(map(_SPECIAL, words[start + 1 :]))
        )  # tools have subcommands of such names

    def _starts(self, words: list[str], *, within: bool) -> bool:
        """Whether words that may be a command hide one; `within` others, which run no builtins."""
        kind, rest = kind_of(words[0]), words[1:]
        if kind in FED or (not within and kind in BUILTINS and not _is_harmless(kind, rest)):
            return True
        if kind in SHELLS or kind in INTERPRETERS or (kind in SOURCES and not within):
            return self._script(kind, rest)
        if kind == "make":
            return (self.has_written and not within) or not all(
                _MAKE_OPTION.fullmatch(word) for word in rest if word[:1] == "-"
            )
        if kind in ("printf", "test"):
            return not within and not _is_inert(kind, words)
        if kind in ("find", "fd"):
            return any(map(_ACTS.match, rest))
        if kind in ("sudo", "doas"):
            return all(word.startswith("-") for word in rest)
        if kind in _UNDERSTOOD:
            return not _UNDERSTOOD[kind](rest)
        return kind == "env" and any(re.match(r"-\w*S|--s", word) for word in rest)

    def _script(self, kind: str, rest: list[str]) -> bool:
        """Whether it cannot be told what a shell or an interpreter runs."""
        if len(rest) == 1 and rest[0] in _VERSION:
            return False
        option = _SHELL_OPTION if kind in SHELLS else _PYTHON_OPTION if kind == "python" else None
        while rest and option and option.fullmatch(rest[0]):
            rest = rest[1:]
        if self.has_written or not rest:
            return True
        if kind in LIKE_BASH and _SHELL_TEXT.fullmatch(rest[0]) and len(rest) > 1:
            return not is_plain_script(rest[1]) or self.hides(rest[1])
        if kind == "python" and rest[0] == "-m" and len(rest) > 1:
            return any("(" in word for word in rest) or bool(self.named.keys() & {rest[1], f"{rest[1]}.py"})
        return rest[0].startswith(("-", "+", "/dev", "/proc")) or name_of(rest[0]).lower() in self.named

    def _wrote(self, kind: str, words: list[str]) -> None:
        if (kind in TOOLS and not any(map(_OUTPUT, words))) or kind in BUILTINS:
            return
        runs_script = kind in SHELLS | INTERPRETERS | SOURCES or (
            _is_of_the_project(words[0]) and kind not in KEEPING | POURING
        )
        self.has_written |= not runs_script
        self.has_poured |= kind in POURING
        self._name(words[2:] if runs_script else words[1:], kind)

    def _name(self, words: Sequence[str], kind: str) -> None:
        for word in words:
            for name in _names(word):
                self.named.setdefault(name, set()).add(kind)


def _commands(text: str) -> Iterator[tuple[list[str], list[str], bool]]:
    """Each command: the assignments and keywords before it, its words, and whether it reads a pipe."""
    before: list[str] = []
    words: list[str] = []
    piped = False
    for token in TOKEN.finditer(text + ";"):
        if token[2]:
            is_first = not words and (token[2] in _OPENING or ASSIGNMENT.match(token[2]))
            (before if is_first else words).append(unquoted(token[2]))
        elif before or words:
            yield before, words, piped
            before, words, piped = [], [], token[1] == "|"
        else:
            piped &= token[1] == "\n"


def _names(word: str) -> Iterator[str]:
    """What may be names of files in a word."""
    return (name for part in _NAMES.split(word) if (name := name_of(part).lstrip("-").lower()) and name.strip("."))


def _is_of_the_project(program: str) -> bool:
    """Whether it is a path, and none of where a system has its programs."""
    return "/" in program and not _SYSTEM.fullmatch(program)


def _is_inert(kind: str, words: Sequence[str]) -> bool:
    """Whether a command neither runs a program nor writes a file."""
    if _is_of_the_project(words[0]):
        return False
    understood = kind not in _UNDERSTOOD or _UNDERSTOOD[kind](words[1:])
    return kind in INERT and understood and not any(map(INERT[kind].match, words[1:]))


def _is_harmless(kind: str, rest: Sequence[str]) -> bool:
    if kind == "export":
        return all(re.fullmatch(r"[a-z_]\w*(?:=.*)?", word, re.IGNORECASE | re.DOTALL) for word in rest)
    return kind == "set" and all(re.fullmatch(r"[-+][euxo]+|pipefail", word) for word in rest)


def _is_plain_sed(rest: Sequence[str]) -> bool:
    options = [word for word in rest if word.startswith("-")]
    scripts = [word for option, word in pairwise(rest) if option == "-e"]
    scripts += [word for word in rest if not word.startswith("-")][:1]
    return all(map(_SED_OPTION.fullmatch, options)) and all(
        all(map(_SED_STEP.fullmatch, script.split(";"))) for script in scripts
    )


def _is_plain_awk(rest: Sequence[str]) -> bool:
    words = [word for word in rest if word not in ("|", "-F|")]
    return not any(_AWK.search(word) or (word[:1] == "-" and word[1:2] not in ("F", "v")) for word in words)


_UNDERSTOOD = {"sed": _is_plain_sed, "awk": _is_plain_awk}
