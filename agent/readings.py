"""What a value of a call's argument may mean, for rules that deny or ask: each text in it, in each way it may be read."""

import ipaddress
import posixpath
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from holdfast.conversation import jsontext
from holdfast.conversation.folding import folded

from .commands import Commands

LONGEST = 65_536
"""How many characters the texts of a value may have together; of a longer one anything is taken to be meant."""
MOST_TEXTS = 4096
_MOST_ROUNDS = 4
_OVERLONG = re.compile(r"%c[01]|%e0%[89]|%f0%8", re.IGNORECASE)  # which some decoders take for ASCII, and others do not
_WORDS = re.compile(r"[\s;&|(){}`<>=,:'\"\[\]]+")
_QUOTING = re.compile(r"[\\'\"^]")
_SLASHES = re.compile(r"^/+")
_ROOTS = re.compile(r"^(?:/(?:proc/[^/]+(?:/task/[^/]+)?/root|private))+(?=/)")
_TRAILING = re.compile(r"(?<=[^/. ])[. ]+(?=/|$)")
_PARAMETERS = re.compile(r";[^/]*")
_HOSTS = re.compile(r"[^\s/\\?#@:\"'<>(),;=&|%\[\]{}]+")
_BREAKS = re.compile(r"[\t\r\n]")  # which browsers leave out of URLs
_AUTHORITY = re.compile(r"(?:(?<=:)|(?<![^\s'\"(<=]))[/\\]+([^\s/\\?#]+)([^\s?#]*)")
_SCHEMED = re.compile(r"(?<![^\s'\"(<=])https?:([^\s/\\?#]+)([^\s?#]*)")  # without slashes, as browsers read it
_BARE_AUTHORITY = re.compile(r"^([^\s/\\?#:]+(?::[0-9]*)?)([/\\][^\s?#]*)?")
_FILE = re.compile(r"\bfile:[/\\]{2}[^/\\\s]*")
_IPV6 = re.compile(r"\[([0-9a-f:.]{2,45})\]")
_NUMERIC = re.compile(r"(?:0x[0-9a-f]{1,8}|[0-9]{1,10})(?:\.(?:0x[0-9a-f]{1,8}|[0-9]{1,10})){0,3}")
_NUMBER = re.compile(r"\s*[+-]?[0_]*[0-9](?:_?[0-9]){0,29}(?:\.[0-9]{0,30}0*)?(?:e[+-]?0*[0-9]{1,2})?\s*", re.IGNORECASE)
_TRUE, _FALSE = frozenset({"true", "1", "on", "t", "y", "yes"}), frozenset({"false", "0", "off", "f", "n", "no"})
"""What a tool's parameter takes for true and false, besides the values themselves."""


class Readings:
    """What a value may mean. Each haystack is a text whose lines are readings, between two ends of lines.

    Attributes:
        texts: Its texts as they stand, and with their percents read.
        opaque: Whether it cannot be inspected, so that it may mean anything.
    """

    def __init__(self, value: Any) -> None:
        self.opaque = False
        found = dict.fromkeys(self._leaves(value))
        self.texts: list[str] = []
        self.whole: list[str] = []  # the texts in small letters: folded, and as they stand
        for text in () if self.opaque else found:
            self._take(text)

    @cached_property
    def commands(self) -> Commands:
        """The commands in it."""
        found = Commands()
        for text in self.whole:
            found.read(text)
        return found

    @cached_property
    def lines(self) -> str:
        """The haystack of whole texts and of commands."""
        whole = [line for text in self.whole for line in (_flat(text), " ".join(text.split()))]
        bare = [" ".join(_QUOTING.sub("", text).split()) for text in self.whole]
        numbers = dict.fromkeys(self._numbers())
        truths = (truth for text in (*self.whole, *numbers) for truth in _truths(text.strip().lower()))
        return _haystack([*whole, *bare, *numbers, *truths, *self.commands.lines])

    @cached_property
    def paths(self) -> str:
        """The haystack of whole texts as paths: as they stand, and without what leads nowhere."""
        return _haystack(path for text in self.whole for path in (_flat(text), *_paths(text)))

    @cached_property
    def words(self) -> str:
        """The haystack of each word as a path."""
        words = dict.fromkeys(word for text in self.whole for word in _words(text))
        return _haystack(path for word in words for path in _paths(word))

    @cached_property
    def hosts(self) -> str:
        """The haystack of what may be hosts: domains with letters of any script, addresses in any form."""
        return _haystack(host for text in self.whole for host in _hosts(text))

    @cached_property
    def urls(self) -> str:
        """The haystack of what may be URLs: each as its host and its path, without scheme, user, port and query."""
        return _haystack(url for text in self.whole for url in _urls(text))

    @cached_property
    def cut_words(self) -> set[str]:
        """What is certain of words that go on with what a shell would put in."""
        words = {word for text in self.whole for word in _words(text)}
        found = (re.split(r"[*?$]", word)[0] for word in words if re.search(r"[*?$]", word))
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
        self._see(folded(text))
        self._see(text.casefold())  # what looks like a quotation mark or a slash is none for most programs
        if "%" not in self.whole[first]:
            return
        reading = text
        for _ in range(_MOST_ROUNDS):
            reading = unquote(reading)
            self.texts.append(reading)
            self._see(folded(reading))
            self._see(reading.casefold())
        place = first
        while place < len(self.whole):  # the percents may themselves be in letters that only look like those of ASCII
            self._see(folded(unquote(self.whole[place])))
            place += 1
            if len(self.whole) - first > 8 * _MOST_ROUNDS:
                self.opaque = True
                return

    def _see(self, text: str) -> None:
        if text not in self.whole[-16:]:
            self.whole.append(text)

    def _numbers(self) -> Iterator[str]:
        for text in self.whole:
            if _NUMBER.fullmatch(text):
                try:
                    yield number_of(text)
                except InvalidOperation:  # pragma: no cover - the expression admits none
                    continue


def _truths(text: str) -> Iterator[str]:
    """The truth value that a tool may be given for a text, and the number for a truth value."""
    if text in _TRUE:
        yield "true"
    if text in _FALSE:
        yield "false"
    if text in ("true", "false"):
        yield "1" if text == "true" else "0"


def text_of(value: Any) -> str:
    """A scalar of JSON as a text: itself, or as JSON writes it."""
    return value if isinstance(value, str) else jsontext.dumps(value)


def number_of(text: str) -> str:
    """A number in its shortest form, in which equal ones are equal: `1000` for `1e3` and `1000.00`."""
    number = Decimal(text.strip())
    return f"{number.normalize():f}" if number else "0"


def is_number(text: str) -> bool:
    """Whether a text is a number, as JSON or a person writes one."""
    return _NUMBER.fullmatch(text) is not None


def host_of(label: str) -> str:
    """A host as its owner reads it: folded, `xn--` decoded, without dots at its end."""
    said = folded(label).strip(".")
    if "xn--" in said:
        said = ".".join(map(_decoded, said.split(".")))
    return said


def _haystack(lines: Any) -> str:
    return "\n" + "\n".join(dict.fromkeys(lines)) + "\n"


def _flat(text: str) -> str:
    return text if text.isprintable() else re.sub(r"[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]", " ", text)


def _paths(text: str) -> Iterator[str]:
    flat = _flat(text)
    for said in {flat, flat.strip(), flat.replace("\\", "/"), flat.replace("\\", "/").strip(), _QUOTING.sub("", flat).strip()}:
        whole = _SLASHES.sub("/", posixpath.normpath(said))
        for path in {whole, _SLASHES.sub("/", _ROOTS.sub("", whole))}:
            yield path
            if (short := _TRAILING.sub("", path)) != path:
                yield short


def _words(text: str) -> Iterator[str]:
    local = _FILE.sub("", text)
    for said in {_QUOTING.sub("", text), text.replace("\\", "/"), _QUOTING.sub("", local), local.replace("\\", "/")}:
        yield from (word for word in _WORDS.split(said) if word)


def _urls(text: str) -> Iterator[str]:
    for said in {text, _BREAKS.sub("", text)}:
        for authority, path in (*_AUTHORITY.findall(said), *_SCHEMED.findall(said), *_BARE_AUTHORITY.findall(said.strip())):
            host = host_of(re.sub(r":[0-9]*$", "", authority.rpartition("@")[2]))
            spellings = dict.fromkeys((path, _PARAMETERS.sub("", path)))
            places = {_SLASHES.sub("/", posixpath.normpath(one.replace("\\", "/"))) if one else "" for one in spellings}
            for one in {host, _address(host) or host} if _NUMERIC.fullmatch(host) else {host}:
                yield from (one + place for place in places)


def _hosts(text: str) -> Iterator[str]:
    for token in dict.fromkeys((*_HOSTS.findall(text), *_HOSTS.findall(_BREAKS.sub("", text)))):
        host = host_of(token)
        if host:
            yield host
        if token.startswith("."):
            yield f".{host}"  # below it, by a label that has a character which no host should have
        if _NUMERIC.fullmatch(host) and (address := _address(host)):
            yield address
    for token in _IPV6.findall(text):
        try:
            long = ipaddress.IPv6Address(token)
        except ValueError:
            continue
        yield str(long)
        if long.ipv4_mapped is not None:
            yield str(long.ipv4_mapped)


def _address(host: str) -> str | None:
    """The IPv4 address that a system takes numbers for: `127.0.0.1` for `2130706433`, `0x7f.1` and `0177.0.0.1`."""
    try:
        parts = [
            int(part, 16 if part.startswith("0x") else 8 if part.startswith("0") and part != "0" else 10)
            for part in host.split(".")
        ]
    except ValueError:
        return None
    *first, last = parts
    number = last
    for place, part in enumerate(first):
        number += part << (8 * (3 - place))
    if any(part > 255 for part in first) or last >= 256 ** (4 - len(first)):  # noqa: PLR2004 - a byte
        return None
    return str(ipaddress.IPv4Address(number))


def _decoded(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    try:
        return folded(label[4:].encode("ascii").decode("punycode"))
    except (UnicodeError, OverflowError, ValueError):
        return label
