"""The commands in a text that a shell may read, for rules that deny or ask.

A *plain* text is read here: words of letters, digits and a few signs, quoted literals, joined by `;`, `&&`, `||`, `|` and ends
of lines. Of any other text it cannot be told what runs, so rules about commands ask about it at least; where a grammar of bash
finds a rule's words in it, the rule does what it says.
"""

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from holdfast.conversation.matching import PLAIN_PART, is_plain_script

from . import grammar

_TOKEN = re.compile(rf"(\n|;|&&|\|\|?)|((?:{PLAIN_PART})++)")
_QUOTED = re.compile(r"'([^']*)'|\"((?:\\.|[^\"\\])*)\"|\\(.)", re.DOTALL)
_CONTINUED = re.compile(r"\\\r?\n")
_QUOTING = re.compile(r"[\\'\"^]")
_ASSIGNMENT = re.compile(r"[a-z_]\w*\+?=", re.IGNORECASE)
_SIMPLE = re.compile(r"[\w./@+-]*")
_GLUED = re.compile(r"-[a-z]*?[sc](.+)|--[\w-]+=(.+)", re.DOTALL)
"""A command in the option of what runs it."""
_BETWEEN = re.compile(r"[\s;&|(){}\[\]$`<>=,:!@]+")
_EXPANDED = re.compile(r"`|\$[({a-z_]", re.IGNORECASE)
_GAP = re.compile(r"[\t\n]")
_KEYWORDS = frozenset({"if", "then", "else", "elif", "while", "until", "do", "coproc", "!", "{"})
_SHELLS = frozenset(
    {"sh", "bash", "rbash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "pwsh", "powershell", "cmd"}
)
_SOURCES = frozenset({".", "source"})
_INTERPRETERS = frozenset({"python", "python2", "python3", "perl", "ruby", "node", "php", "lua", "tclsh"})
_FEEDING = _SHELLS | {"xargs", "parallel", "hash", "alias"}
_FED = (_FEEDING - _SHELLS) | {
    *("at", "batch", "crontab", "mapfile", "readarray", "fc", "enable", "bind", "run-parts", "split", "csplit"),
}
"""What runs words that the text need not have."""
_WRAPPERS = _SHELLS | {
    *("for", "select", "case", "builtin", "command", "exec", "eval", "trap", "time", "env", "nohup", "nice"),
    *("timeout", "stdbuf", "setsid", "xargs", "parallel", "find", "fd", "flock", "script", "watch", "busybox", "docker"),
    *("sudo", "doas", "su", "runuser", "ssh"),
}
"""What runs commands among its words: a rule finds them there. Of another program a rule is not sure that it does."""
_READING = (
    _WRAPPERS
    | _INTERPRETERS
    | {
        *("let", "declare", "typeset", "local", "readonly", "export", "test", "read", "unset", "compgen", "complete"),
        *("split", "tar", "tmux", "screen", "entr"),
    }
)
"""What may take a quoted word for commands, or for a program."""
_INLINE = re.compile(r"-\w*[cepr]|--(?:eval|print|run)")
"""An option by which an interpreter takes a word for a program."""
_RULING = re.compile(r"(?:path|bash_env|env|ps4|prompt_command|ld_\w+|shellopts|bashopts)\+?=|.*[$`]", re.DOTALL)
"""An assignment by which a shell runs other programs than the words say, or one that is a command."""
_STREAMS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
_AWK = re.compile(r"system|getline|(?<!\|)\|(?!\|)")
_EXECUTING = {
    "sed": re.compile(r"/[gpim0-9]*e(?:$|[\s;}])|(?:^|[;{\s\d$!/])e(?:$|[\s;}])"),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK),
    "printf": re.compile("-v"),
    "make": re.compile("-f|--eval|--file|--makefile"),
}
"""Of programs that run nothing mostly, what says that they do, or that they set a variable which a shell runs."""
_PROGRAMMED = _INTERPRETERS | (_EXECUTING.keys() - {"make", "printf"})
_SEARCHES = frozenset({"find", "fd"})
_RUNNING = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "--exec", "--exec-batch"})
_BEGUN, _NAMED = "\x01", "\x02"
"""The marks of a word that begins a command, and of one that may be a program's name."""
_MOST_DEEP, _MOST_PARSED, _MOST_STARTS, _LONGEST_OPTIONS = 8, 16_384, 64, 12


class Commands:
    """The commands in a text, in each way it may be read.

    Attributes:
        unclear: Whether it runs what cannot be told from it.
    """

    def __init__(self) -> None:
        self.unclear = False
        self._found: dict[tuple[str, ...], None] = {}  # the words of each command
        self._beside: dict[str, None] = {}  # the values of assignments
        self._parsed = 0
        self._possible: dict[frozenset[str], str | None] = {}

    def read(self, text: str, deep: int = 0) -> None:
        """Take in a text, folded or not."""
        if deep > _MOST_DEEP:
            self.unclear = True
        elif is_plain_script(text):
            self._plain(text, deep)
        else:
            self.unclear = True
            for said in dict.fromkeys((text, _CONTINUED.sub("", text))):
                self._parsed += len(said)
                for found in grammar.found_in(said) if self._parsed <= _MOST_PARSED else ():
                    if isinstance(found, str):
                        self.read(_unquoted(found), deep + 1)
                    else:
                        self._take([_unquoted(word) for word in found], deep)

    @cached_property
    def lines(self) -> list[str]:
        """Each command as a line of words with single spaces, also behind what wraps it."""
        return [
            " ".join(words[start:])
            for words in self._found
            for start in range(min(len(words), _MOST_STARTS) if _name(words[0]) in _WRAPPERS else 1)
        ]

    @cached_property
    def certain(self) -> str:
        """The haystack of commands for `CommandGlob`."""
        return _haystack(
            [_BEGUN + word if place == 0 or _name(words[0]) in _WRAPPERS else word for place, word in enumerate(words)]
            for found in self._found
            for words in _spelled(found)
        )

    def possible(self, known: frozenset[str]) -> str | None:
        """The haystack of what may run besides; None where it cannot be told.

        Args:
            known: Programs that run none of their words.
        """
        if known not in self._possible:
            self._possible[known] = None if self.unclear else self._words_but_of(known)
        return self._possible[known]

    def _words_but_of(self, known: frozenset[str]) -> str | None:
        others = [words for words in self._found if (name := _name(words[0])) not in known or name in _READING]
        words = [word for words in others for word in words[1:]]
        if (
            any(map(_RULING.match, self._beside))
            or any(map(_EXPANDED.search, words))
            or any(_name(part) in _FEEDING for word in words for part in _parts(word))
            or any(_is_fed(words[start:]) for words in others for start in _behind(words))
            or self._runs_what_it_makes(others)
        ):
            return None
        return _haystack(
            [(_BEGUN if words and _name(words[0]) in _WRAPPERS else _NAMED) + part for word in words for part in _parts(word)]
            for words in (tuple(self._beside), *others)
        )

    def _runs_what_it_makes(self, others: list[tuple[str, ...]]) -> bool:
        """Whether these run a file that another command of the text may make, since it names it."""
        words = [part for words in self._found for word in words[1:] for part in _parts(word)]
        named, placed = Counter(map(_name, words)), {_name(word) for word in words if "/" in word}
        scripts = Counter(_name(script) for words in self._found if (script := _script(words)))
        return any(named[script] > count for script, count in scripts.items()) or any(
            _name(words[0]) in (named if "/" in words[0] else placed)
            or any(named[_name(word)] > 1 for word in words if word.startswith("./"))
            for words in others
        )

    def _plain(self, text: str, deep: int) -> None:
        words: list[str] = []
        for token in _TOKEN.finditer(text + ";"):
            if token[2]:
                word = _unquoted(token[2])
                if _ASSIGNMENT.match(token[2]) and _KEYWORDS.issuperset(words):
                    self._beside[word] = None
                else:
                    words.append(word)
            elif words:
                self._take(words, deep)
                words = []

    def _take(self, words: list[str], deep: int) -> None:
        while words and words[0] in _KEYWORDS:
            words = words[1:]
        if not words:
            return
        name = _name(words[0])
        self._found[tuple(words)] = None
        starts = range(len(words)) if name in _WRAPPERS else range(1)
        self.unclear |= len(starts) > _MOST_STARTS or any(_is_fed(words[start:]) for start in starts)
        if name not in _READING or (name in _SEARCHES and not _RUNNING.intersection(words)):
            return
        for word in words[1:]:
            if glued := _GLUED.fullmatch(word):
                self.read(glued[1] or glued[2], deep + 1)
            if _SIMPLE.fullmatch(word) is None:
                self.read(word, deep + 1)


def _name(word: str) -> str:
    """The name of the program that a word runs."""
    return word.rpartition("/")[2].removesuffix(".exe")


def _behind(words: Sequence[str]) -> Iterator[int]:
    """The places, but the first, of programs that may run what their words do not say."""
    return (place for place in range(1, min(len(words), _MOST_STARTS)) if _name(words[place]) in _PROGRAMMED)


def _is_fed(words: Sequence[str]) -> bool:
    """Whether a command runs what its words do not say."""
    name, script = _name(words[0]), _script(words)
    return (
        name in _FED
        or (name in _EXECUTING and any(map(_EXECUTING[name].search, words[1:])))
        or (script is not None and ((not script and name not in _SOURCES) or script.startswith(_STREAMS)))
    )


def _script(words: Sequence[str]) -> str | None:
    """The file that a shell or an interpreter reads, empty if it reads none; None for other programs."""
    if (name := _name(words[0])) not in _SHELLS | _SOURCES | _INTERPRETERS:
        return None
    for word in words[1:]:
        if not word.startswith("-"):
            return word
        if name in _INTERPRETERS and _INLINE.match(word):
            return ""
    return ""


def _unquoted(word: str) -> str:
    return _QUOTED.sub(lambda found: found[1] or re.sub(r'\\(["\\$`])', r"\1", found[2] or "") or found[3] or "", word)


def _spelled(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """The words as they stand, and without what leads nowhere in paths."""
    yield words
    if any("/" in word for word in words):
        yield [word if "://" in word else posixpath.normpath(word) for word in words]


def _parts(word: str) -> list[str]:
    """A word, and what a program may take out of it: what an option holds, and each word of a text."""
    if _SIMPLE.fullmatch(word) is None:
        return [word, *filter(None, _BETWEEN.split(_QUOTING.sub("", word)))]
    if word.startswith("-"):
        return [word, *(word[place:] for place in range(1, min(len(word), _LONGEST_OPTIONS)))]
    return [word]


def _haystack(lines: Iterable[Iterable[str]]) -> str:
    return "".join("".join(f"{_GAP.sub(' ', word)}\t" for word in line) + "\n" for line in lines)
