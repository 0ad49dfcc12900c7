"""The commands in a text that a shell may read, for rules that deny or ask.

A *plain* text is parsed here: words of letters, digits and a few signs, quoted literals, joined by `;`, `&&`, `||`, `|` and
newlines. What any other text runs is unknown, so rules about commands at least ask about it; if a bash grammar finds a rule's
words in it, the rule applies in full.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from holdfast.conversation.text.matching import is_plain_script

from . import grammar
from .command_glob import SCRIPT
from .hiding import ASSIGNMENT, TOKEN, hides, told_to_scripts, unquoted, unwrapped
from .programs import WRAPPERS, name_of, reads_text

_CONTINUED = re.compile(r"\\\r?\n")
QUOTING = re.compile(r"[\\'\"^]")
_SIMPLE = re.compile(r"[\w./+-]*")
_GLUED = re.compile(r"-[a-z]*?[sc](.+)|--[\w-]+=(.+)", re.DOTALL)
"""A command in an option of the program that runs it."""
_BETWEEN = re.compile(r"[\s;&|(){}\[\]$`<>=,:!@]+")
_PIECES = re.compile(r"[^\w.-]+")
_GAP = re.compile(r"[\t\n]")
_RUNNING = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "--exec", "--exec-batch"})
_KEYWORDS = frozenset({"if", "then", "else", "elif", "while", "until", "do", "coproc", "!", "{"})
_BEGUN, _NAMED, _BEHIND = "\x01", "\x02", "\x03"
"""The marks of a word that begins a command, of a possible program's name, and of pieces behind a wrapper."""
_MOST_DEEP, _MOST_PARSED, _MOST_STARTS, _LONGEST_OPTIONS = 8, 16_384, 64, 64


class Commands:
    """The commands in a text, in each way it may be read.

    Args:
        said: The text in the letters in which it runs, in each way it may be decoded.

    Attributes:
        unclear: Whether it runs something that the text does not show.
    """

    def __init__(self, said: Sequence[str]) -> None:
        self.unclear = False
        self._said = said
        self._found: dict[tuple[str, ...], None] = {}  # by their words
        self._beside: dict[str, None] = {}  # the assignments and keywords before them
        self._parsed = 0
        self._possible: dict[frozenset[str], str | None] = {}

    def read(self, text: str, deep: int = 0) -> None:
        """Read a text, folded or not."""
        if deep > _MOST_DEEP:
            self.unclear = True
        elif is_plain_script(text):
            self._plain(text, deep)
        else:
            self.unclear |= deep == 0  # inside a plain text, it is known whether its program runs the part
            for said in dict.fromkeys((text, _CONTINUED.sub("", text))):
                self._parsed += len(said)
                for found in grammar.found_in(said) if self._parsed <= _MOST_PARSED else ():
                    if isinstance(found, str):
                        self.read(unquoted(found), deep + 1)
                    else:
                        self._take([unquoted(word) for word in found], deep)

    @cached_property
    def lines(self) -> list[str]:
        """Each command as a line of words with single spaces, also without its wrappers."""
        return [
            " ".join(words[start:])
            for words in self._found
            for start in range(min(len(words), _MOST_STARTS) if name_of(words[0]) in WRAPPERS else 1)
        ]

    @cached_property
    def certain(self) -> str:
        """The commands as text for `CommandGlob` to search."""
        return _haystack(
            [_BEGUN + word if place == 0 or name_of(words[0]) in WRAPPERS else word for place, word in enumerate(words)]
            for found in self._found
            for words in _spelled(found)
        )

    def possible(self, known: frozenset[str]) -> str | None:
        """What else may run, as text to search (None: unknown). The first plain word behind a `known` program is no program."""
        if known not in self._possible:
            self._possible[known] = None if self.unclear else self._words_but_of(known)
        return self._possible[known]

    def _words_but_of(self, known: frozenset[str]) -> str | None:
        if any(hides(said, known) for said in self._said):
            return None
        words = (
            _beyond_the_first(words) if (name := name_of(words[0])) in known and not reads_text(name) else words
            for words in self._found
        )
        return _haystack(
            [(_BEGUN if line and name_of(line[0]) in WRAPPERS else _NAMED) + part for word in line for part in _parts(word)]
            for line in (tuple(self._beside), *words)
        ) + _haystack(self._pieces())

    def _pieces(self) -> Iterator[Iterable[str]]:
        """The pieces of words behind a wrapper, and of all that scripts of the project are told: words, variables, names."""
        told = list(self._beside)
        has_script = False
        for found in self._found:
            if (words := unwrapped(found)) is not found:
                yield (_BEHIND + piece for word in words for piece in _PIECES.split(word))
            given, is_script = told_to_scripts(words)
            has_script |= is_script
            told += (*filter(ASSIGNMENT.match, found), *given)
        if has_script:
            yield (SCRIPT, *(_BEHIND + piece for word in told for piece in _PIECES.split(word)))

    def _plain(self, text: str, deep: int) -> None:
        words: list[str] = []
        for token in TOKEN.finditer(text + ";"):
            if token[2]:
                if words or not (token[2] in _KEYWORDS or ASSIGNMENT.match(token[2])):
                    words.append(unquoted(token[2]))
                else:
                    self._beside[unquoted(token[2])] = None
            elif words:
                self._take(words, deep)
                words = []

    def _take(self, words: list[str], deep: int) -> None:
        words = words[next((place for place, word in enumerate(words) if word not in _KEYWORDS), len(words)) :]
        if not words:
            return
        self._found[tuple(words)] = None
        searches = name_of(words[0]) in ("find", "fd") and _RUNNING.isdisjoint(words)
        for word in words[1:] if reads_text(name_of(words[0])) and not searches else ():
            if glued := _GLUED.fullmatch(word):
                self.read(glued[1] or glued[2], deep + 1)
            if _SIMPLE.fullmatch(word) is None:
                self.read(word, deep + 1)


def _beyond_the_first(words: Sequence[str]) -> Sequence[str]:
    """The words of a command after its program and its subcommand or file (a plain first word that is no option)."""
    return words[2 if len(words) > 1 and words[1][:1] != "-" and _SIMPLE.fullmatch(words[1]) else 1 :]


def _spelled(words: Sequence[str]) -> Iterator[Sequence[str]]:
    yield words
    if any("/" in word for word in words):
        yield [word if "://" in word else posixpath.normpath(word) for word in words]


def _parts(word: str) -> list[str]:
    """A word, and what a program may take out of it: an option's value, and each word of a text."""
    if _SIMPLE.fullmatch(word) is None:
        parts = [part for part in _BETWEEN.split(QUOTING.sub("", word)) if part]
        return [word, *(parts if not word.startswith("-") or not parts else [*_held_by(parts[0]), *parts[1:]])]
    return _held_by(word) if word.startswith("-") else [word]


def _held_by(option: str) -> list[str]:
    longest = 0 if option.startswith("--") else min(len(option), _LONGEST_OPTIONS)
    return [option, *(option[place:] for place in range(1, longest))]


def _haystack(lines: Iterable[Iterable[str]]) -> str:
    return "".join("".join(f"{_GAP.sub(' ', word)}\t" for word in line) + "\n" for line in lines)
