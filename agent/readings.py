"""The readings of a call's argument, for rules that deny or ask: each text in it, in each way it may be read."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from holdfast.conversation.text import jsontext
from holdfast.conversation.text.confusables import skeleton

from . import hosts
from .commands import QUOTING, Commands

LONGEST = 65_536
"""The most characters of all texts of a value; a longer value may mean anything."""
MOST_TEXTS = 4096
_MOST_ROUNDS = 4
_OVERLONG = re.compile(r"%c[01]|%e0%[89]|%f0%8", re.IGNORECASE)  # ASCII for some decoders and not for others
_WORDS = re.compile(r"[\s;&|(){}`<>=,:'\"\[\]]+")
_SLASHES = re.compile(r"^/+")
_ROOTS = re.compile(r"^(?:/(?:private|system/volumes/data))+(?=/)")
_LINK = re.compile(r"(?:^|/)(?:proc/[^/]+(?:/task/[^/]+)?/(?:root|cwd|fd/[^/]+)|dev/fd/[^/]+)$")
"""A path to a folder that only the process knows: its root, its working directory, its open files."""
_DEEPEST = 6
_BASES = re.compile(r"^[~$][^/]*(?:/|$)")
_TRAILING = re.compile(r"(?<=[^/. ])(?:[. ]+|:[^/:][^/]*|::\$data)(?=/|$)")  # what Windows cuts off, or takes for a stream
_CUT = re.compile(r"[*?$]|~[0-9]")  # cut by a shell's substitution, or by Windows (`secret~1` for `secrets`)
_FILE = re.compile(r"\bfile:[/\\]{2}[^/\\\s]*")
_NUMBER = re.compile(r"\s*[+-]?[0_]*[0-9](?:_?[0-9]){0,29}(?:\.[0-9]{0,30}0*)?(?:e[+-]?0*[0-9]{1,2})?\s*", re.IGNORECASE)
_TRUTHS = dict.fromkeys(("1", "on", "t", "y", "yes"), "true") | dict.fromkeys(("0", "off", "f", "n", "no"), "false")
_TRUTHS |= {"true": "true 1", "false": "false 0"}
"""The truth value that a tool may read from a text, and the number for a truth value."""


class Readings:
    """The readings of a value. Each haystack is a text with one reading per line, between newlines.

    Attributes:
        texts: Its texts as they stand, and percent-decoded.
        opaque: Whether it cannot be inspected, so that it may mean anything.
    """

    def __init__(self, value: Any) -> None:
        self.opaque = False
        found = dict.fromkeys(self._leaves(value))
        self.texts: list[str] = []
        self.whole: list[str] = []  # the texts in lower case: folded, and as they stand
        for text in () if self.opaque else found:
            self._take(text)

    @cached_property
    def commands(self) -> Commands:
        """The commands in it."""
        found = Commands(self.texts)
        for text in self.whole:
            found.read(text)
        return found

    @cached_property
    def lines(self) -> str:
        """The haystack of whole texts and of commands."""
        whole = [line for text in self.whole for line in (_flat(text), " ".join(text.split()))]
        bare = [" ".join(QUOTING.sub("", text).split()) for text in self.whole]
        numbers = dict.fromkeys(number_of(text) for text in self.whole if is_number(text))
        names = (hosts.host_of(text) for text in self.whole if "." in text and not any(map(str.isspace, text)))
        truths = (truth for text in (*self.whole, *numbers) for truth in _TRUTHS.get(text.strip().lower(), "").split())
        return _haystack([*whole, *bare, *names, *numbers, *truths, *self.commands.lines])

    @cached_property
    def paths(self) -> str:
        """The haystack of whole texts as paths: as they stand, and normalized."""
        return _haystack(path for text in self.whole for path in (_flat(text), *paths_of(text)))

    @cached_property
    def words(self) -> str:
        """The haystack of each word as a path."""
        words = dict.fromkeys(word for text in self.whole for word in _words(text))
        return _haystack(path for word in words for path in paths_of(word))

    @cached_property
    def hosts(self) -> str:
        """The haystack of possible hosts: domains with letters of any script, addresses in any form."""
        return _haystack(host for text in self.whole for host in hosts.hosts(text))

    @cached_property
    def authorities(self) -> str:
        """The haystack of the hosts of certain URLs."""
        return _haystack(host for text in self.whole for host in hosts.authorities(text))

    @cached_property
    def urls(self) -> str:
        """The haystack of possible URLs: each as its host and path, without scheme, user, port and query."""
        return _haystack(url for text in self.whole for url in hosts.urls(text))

    @cached_property
    def mails(self) -> str:
        """The haystack of possible mail addresses."""
        return _haystack(mail for text in self.whole for mail in hosts.mails(text))

    @cached_property
    def unclear_host(self) -> bool:
        """Whether it has a URL with an unknown host."""
        return any(map(hosts.is_unclear, self.whole))

    @cached_property
    def unclear_path(self) -> bool:
        """Whether it has a path below a process's working directory or open files, which may be any folder."""
        linked = (text for text in self.whole if "proc" in text or "fd" in text)
        return any(_behind_links(word)[1] for text in linked for word in _words(text))

    @cached_property
    def cut_words(self) -> set[str]:
        """The known beginnings of words that a shell would complete."""
        words = {word for text in self.whole for word in _words(text)}
        found = (_CUT.split(word)[0] for word in words if _CUT.search(word))
        return {posixpath.normpath(cut) + ("/" if cut.endswith("/") else "") for cut in found if cut}

    def _leaves(self, value: Any) -> Iterator[str]:
        todo, seen, size = [value], 0, 0
        while todo:
            one, seen = todo.pop(), seen + 1
            texts: list[str] = []
            if isinstance(one, Mapping):
                todo += [*one.keys(), *one.values()]
            elif isinstance(one, list | tuple):
                todo += one
                if one and all(isinstance(part, str) for part in one):
                    texts.append(" ".join(one))  # a command as a list of its words
            else:
                texts.append(text_of(one))
            size += sum(map(len, texts))
            if seen + len(todo) > MOST_TEXTS or size > LONGEST:
                self.opaque = True
                return
            yield from texts

    def _take(self, text: str) -> None:
        self.opaque |= _OVERLONG.search(text) is not None
        first = len(self.whole)
        self.texts.append(text)
        self._see(skeleton(text))
        self._see(text.casefold())  # most programs do not accept look-alike quotation marks or slashes
        if not text.isascii():
            self._see(skeleton(hosts.mapped(text)))
        self._decode(text, first)
        for seen in self.whole[first:]:
            for one in hosts.spelled(seen):
                self._see(one)

    def _decode(self, text: str, first: int) -> None:
        if "%" not in self.whole[first]:
            return
        reading = text
        for _ in range(_MOST_ROUNDS):
            reading = unquote(reading)
            self.texts.append(reading)
            self._see(skeleton(reading))
            self._see(reading.casefold())
        place = first
        while place < len(self.whole):  # the percent signs may themselves be look-alikes
            self._see(skeleton(unquote(self.whole[place])))
            place += 1
            if len(self.whole) - first > 8 * _MOST_ROUNDS:
                self.opaque = True
                return

    def _see(self, text: str) -> None:
        if text not in self.whole[-16:]:
            self.whole.append(text)


def text_of(value: Any) -> str:
    """A JSON scalar as text: a string as it is, others as JSON."""
    return value if isinstance(value, str) else jsontext.dumps(value)


def number_of(text: str) -> str:
    """A number in its shortest form, which is the same for equal numbers: `1000` for `1e3` and `1000.00`."""
    number = Decimal(text.strip())
    return f"{number.normalize():f}" if number else "0"


def is_number(text: str) -> bool:
    """Whether a text is a number, as JSON or a person writes one."""
    return _NUMBER.fullmatch(text) is not None


def _haystack(lines: Any) -> str:
    return "\n" + "\n".join(dict.fromkeys(lines)) + "\n"


def _flat(text: str) -> str:
    return text if text.isprintable() else re.sub(r"[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]", " ", text)


def paths_of(text: str) -> Iterator[str]:
    """The readings of a lower-case text as a path, normalized."""
    flat = _flat(text)
    for said in {flat, flat.strip(), flat.replace("\\", "/"), flat.replace("\\", "/").strip(), QUOTING.sub("", flat).strip()}:
        behind, _ = _behind_links(said)
        for place in (said, *(() if behind is None else (f"/{behind}", behind)), *_outside(said)):
            whole = _SLASHES.sub("/", posixpath.normpath(place))
            for path in {whole, _SLASHES.sub("/", _ROOTS.sub("", whole))}:
                yield path
                if (short := _TRAILING.sub("", path)) != path:
                    yield short


def _behind_links(path: str) -> tuple[str | None, bool]:
    """The path behind the last process link (None without one), and whether that may be any folder."""
    parts, linked, anywhere = list[str](), False, False
    for part in path.split("/") if "proc" in path or "fd" in path else ():
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
            if part != ".." and (link := _LINK.search("/".join(parts[-_DEEPEST:]))):
                parts, linked, anywhere = [], True, not link[0].endswith("/root")
    return ("/".join(parts) if linked else None), anywhere and bool(parts)


def _outside(path: str) -> Iterator[str]:
    """The rest of a path that begins with `~` or `$NAME`, if it leads out of that folder."""
    if _BASES.match(path) and (rest := posixpath.normpath(_BASES.sub("", path))).startswith(".."):
        yield rest


def _words(text: str) -> Iterator[str]:
    local = _FILE.sub("", text)
    for said in {QUOTING.sub("", text), text.replace("\\", "/"), QUOTING.sub("", local), local.replace("\\", "/")}:
        yield from (word for word in _WORDS.split(said) if word)
