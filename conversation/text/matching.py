"""Globs for permissions, which cover a text only if that is certain, and the canonical forms of paths, domains and commands.

The meaning of a wildcard depends on the glob. A glob with white space is a command: a wildcard stands for words of that one
command. One with a slash is a path: a wildcard never leads out of the folder before it. One with `://` is a URL. A glob like
`*.x.com` covers hosts, also those of a plainly written URL. No glob covers an ambiguous text: one with a second command, a way
up, another user's host, or characters that are invisible or look like others.
"""

import re
from collections.abc import Callable

from .confusables import is_plain
from .glob import Glob
from .regex import Regex, literal

LONGEST = 8192
"""How many characters of a text are compared; no glob with wildcards covers a longer text."""

# The characters that a wildcard stands for, by the kind of glob. All exclude characters by which a shell begins something
# else, and percent signs, backslashes and quotation marks, which may give a text a second reading.
_NOT_NAME = r"\x00-\x1f\x21-\x2a\x2f\x3a-\x3c\x3e-\x40\x5b-\x5e\x60\x7b-\x7f"  # ASCII but letters, digits, and " +,-.=_"
_NAME = f"[^{_NOT_NAME}]*"
_PATH = r"[^\x00-\x1f\x21-\x2a\x2f\x3a-\x3c\x3e-\x3f\x5b-\x5e\x60\x7b-\x7f]*"  # as in names, and @
_PATHS = r"[^\x00-\x1f\x21-\x2a\x3a-\x3c\x3e-\x3f\x5b-\x5e\x60\x7b-\x7f]*"  # and slashes
_PATH_WORD = r"[^\x00-\x20\x21-\x2a\x2f\x3a-\x3c\x3e-\x3f\x5b-\x5e\x60\x7b-\x7f]*"  # as in paths, without the space
_PATH_WORDS = r"[^\x00-\x20\x21-\x2a\x3a-\x3c\x3e-\x3f\x5b-\x5e\x60\x7b-\x7f]*"
_WORDS = r"[^\x00-\x1f!\x22#$%&\x27()\x3b<>\x5b\\\x5d\x5e\x60{|}\x7f]*"
_QUOTED_WORDS = r"[^\x00-\x1f!#$%&()\x3b<>\x5b\\\x5d\x5e\x60{|}\x7f]*"
_HOST = "[a-z0-9.-]*"
_ANY_PAGE = r"(?:[/?#][^\x00-\x20\x22\x27\x3b<>\\\x5e\x60{|}$()\x7f]*)?"
_PAGE = r"[^\x00-\x20\x22-\x2a\x2f\x3a-\x3c\x3e-\x40\x5b-\x5e\x60\x7b-\x7f]*"
_PAGES = r"[^\x00-\x20\x22-\x24\x27-\x2a\x3a-\x3c\x3e\x40\x5b-\x5e\x60\x7b-\x7f]*"

_SPACE = re.compile(r"\s")
_UP = re.compile(r"(?:^|[/\\\s=:,'\"@])\.\.(?:$|[/\\\s:,'\"])")
_LINK = re.compile(r"(?:^|[/\\\s=:,'\"@])(?:proc/+[^/\s]+/+(?:task/+[^/\s]+/+)?(?:root|cwd|fd)|dev/+fd)(?:$|[/\\\s:,'\"])")
"""Paths to a process's root, working directory or open files."""
_UNSETTLED = re.compile(r"(?:^|/) |[ .](?:/|$)|//|/$")
PLAIN_PART = r"(?:[\w./:=@,+-]|'[^']*+'|\"[^\"$`\\!]*+\")"
"""The expression of the words of plain commands: letters, digits, a few signs, and quoted texts."""
_PLAIN_SCRIPT = re.compile(rf"(?:[ \t\n;|]|&&|{PLAIN_PART})*+")
_PLAIN_COMMAND = re.compile(_QUOTED_WORDS)
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NUMBER_AT_END = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)", re.DOTALL)
_ADDRESS = re.compile(r"(?:(?:[0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])(?:\.(?!$)|$)){4}")
_ADDRESS_GLOB = re.compile(r"[0-9.]*[0-9][0-9.]*\*[0-9.*]*")
_LETTERS_AT_END = re.compile(r"\.[^\W\d_][^.]*\.?$")
_DOMAIN_GLOB = re.compile(rf"(?:\*\*?\.)?{_LABEL}(?:\.{_LABEL})+|localhost")
_URL = re.compile(r"https?://([^/?#@:]*)(?::[0-9]{1,5})?(?:[/?#]|$)")
_URL_HOST = re.compile(r"://(?:[^/?#@\s]*@)?([^/?#:@\s]*)")
_ASKED = re.compile(r"[?#]")
_ESCAPED_SEPARATOR = re.compile(r"%(?:2e|2f|5c|25|0|1|7f)", re.IGNORECASE)
_LONGEST_DOMAIN = 253


class Matcher:
    """A glob that tells whether it certainly covers a text; compiled once. `BadRegex` if the glob is too large."""

    __slots__ = ("_matches", "_settled", "glob")

    def __init__(self, glob: Glob) -> None:
        self.glob = glob
        self._settled: Callable[[str], bool] = is_settled_word
        expression = ""
        if "://" in glob.said:
            expression, self._settled = _url(glob), _is_settled_url
        elif is_domain_glob(glob):
            expression, self._settled = _hosts(glob), _is_settled_host
        elif glob.literal is not None:
            pass
        elif any(char.isspace() for char in glob.said):
            expression, self._settled = _command(glob), _is_settled_command
        elif "/" in glob.said or set(glob.stars) == {"**"}:
            expression, self._settled = glob.expression(_PATH, _PATHS), self._is_settled_path
        else:
            expression = glob.expression(_NAME)
            if _ADDRESS_GLOB.fullmatch(glob.said):
                self._settled = _is_settled_number
        self._matches: Callable[[str], bool] = Regex(expression).matches if expression else glob.literal.__eq__

    def covers(self, text: str) -> bool:
        """Whether the glob certainly covers the whole text."""
        if text == self.glob.literal:
            return True
        return len(text) <= LONGEST and is_plain(text) and self._matches(text) and self._settled(text)

    def _is_settled_path(self, path: str) -> bool:
        if path.startswith("/") != self.glob.text.startswith("/"):
            return False  # a leading wildcard stands only for folders below the current one
        return is_settled_path(path.removeprefix("./") if self.glob.text.startswith("./") else path)


def is_domain_glob(glob: Glob) -> bool:
    """Whether a glob is about hosts: a domain in small letters, perhaps with `*.` before it."""
    return _DOMAIN_GLOB.fullmatch(glob.text) is not None


def is_settled_path(path: str) -> bool:
    """Whether a path has one reading: no `..`, no second spelling, no spaces or dots that a system would cut off."""
    return (
        path != ""
        and _LINK.search(path) is None
        and _UNSETTLED.search(path) is None
        and not any(part.strip(". ") == "" for part in path.removeprefix("/").split("/"))
        and not path.startswith("~")
    )


def leads_up(text: str) -> bool:
    """Whether a text, or a word in it, has a way up: `..`, or a process's root or folder."""
    return _UP.search(text) is not None or _LINK.search(text) is not None


def is_settled_word(text: str) -> bool:
    """Whether a text is not blank, does not lead up, and has no space around it."""
    return text.strip(". ") != "" and not leads_up(text) and text == text.strip()


def is_plain_command(text: str) -> bool:
    """Whether a text is one command with its words, in every shell."""
    return is_plain(text) and _PLAIN_COMMAND.fullmatch(text) is not None and _is_settled_command(text)


def is_plain_script(text: str) -> bool:
    """Whether a text is plain commands, joined by `;`, `&&`, `||`, `|` and ends of lines, without shell expansions."""
    return _PLAIN_SCRIPT.fullmatch(text) is not None


def is_domain(text: str) -> bool:
    """Whether a text is a domain in its canonical form: small ASCII letters (`xn--` for others), without a dot at its end.

    An address has the form of four decimal numbers.
    """
    return len(text) <= _LONGEST_DOMAIN and _DOMAIN.fullmatch(text) is not None and _is_clear(text)


def ends_in_number(host: str) -> bool:
    """Whether a host in small letters is an address, or invalid: no top-level domain is a number."""
    return _NUMBER_AT_END.fullmatch(host) is not None


def has_clear_hosts(text: str) -> bool:
    """Whether no URL in a text has an address as its host that resolvers read in several ways."""
    return all(map(_is_clear, _URL_HOST.findall(text.lower())))


def _is_clear(host: str) -> bool:
    return not ends_in_number(host.rstrip(".")) or _ADDRESS.fullmatch(host) is not None


def _is_settled_number(text: str) -> bool:
    """Whether a text is no host name: its last label is a number (`10.1.2.3`, but not `10.x.com`)."""
    return is_settled_word(text) and _LETTERS_AT_END.search(text) is None


def _is_settled_command(text: str) -> bool:
    return is_settled_word(text) and not text.startswith("-") and is_plain_script(text)


def _is_settled_host(text: str) -> bool:
    return _is_settled_url(text) if "://" in text else is_domain(text)


def _is_settled_url(url: str) -> bool:
    host = _URL.match(url)
    path = _ASKED.split(url.partition("://")[2], maxsplit=1)[0]
    return (
        host is not None
        and is_domain(host[1])
        and not leads_up(url)
        and "//" not in path
        and not any(part.partition(";")[0] in {".", ".."} for part in path.split("/"))
        and _ESCAPED_SEPARATOR.search(url) is None
    )


def _hosts(glob: Glob) -> str:
    host = glob.expression(_HOST)
    return f"{host}|https?://{host}{_ANY_PAGE}"


def _url(glob: Glob) -> str:
    """The expression of a URL's glob: scheme and host are compared literally, and a glob without a path covers any path."""
    found, place = "", "host"
    for kind, part in zip(("", *glob.stars), glob.parts, strict=True):
        if kind and place == "host":
            ends = found != literal(glob.parts[0].partition("://")[0] + "://") and (part == "" or part.startswith("/"))
            found += "" if ends else _HOST  # no wildcard continues a host: x.com* does not cover x.com.evil.com
        elif kind:
            found += _PAGE if kind == "*" else _PAGES
        found += literal(part)
        if place == "host" and ("/" in part.partition("://")[2] or ("/" in part and "://" not in part)):
            place = "page"
    return found if place == "page" else found + _ANY_PAGE


def _command(glob: Glob) -> str:
    """The expression of a command's glob.

    A wildcard in a word with a slash stays in that word, so `cat src/**` is about files in src. Only a last wildcard at the end
    of the glob covers quoted words: elsewhere a quotation mark could hide the rest of the glob.
    """
    quotes = any(mark in glob.said for mark in "'\"")
    number, numbers, words = 0, [], [""]  # for each wildcard, the number of its word
    for part in glob.parts:
        pieces = _SPACE.split(part)
        words[-1] += pieces[0]
        words += pieces[1:]
        number += len(pieces) - 1
        numbers.append(number)
    found, last = literal(glob.parts[0]), len(glob.stars) - 1
    for place, (kind, part) in enumerate(zip(glob.stars, glob.parts[1:], strict=True)):
        if "/" in words[numbers[place]]:
            found += _PATH_WORD if kind == "*" else _PATH_WORDS
        elif place == last and part == "" and not quotes:
            found += _QUOTED_WORDS
        else:
            found += _WORDS
        found += literal(part)
    return found
