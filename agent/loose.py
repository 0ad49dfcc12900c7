"""Conditions in rules that deny or ask: whether they cover a value in any of its readings."""

import re
from collections.abc import Iterable

from holdfast.conversation.text.confusables import skeleton
from holdfast.conversation.text.glob import Glob
from holdfast.conversation.text.matching import is_domain_glob
from holdfast.conversation.text.regex import Regex, literal

from .hosts import canonical, host_of, is_of_addresses, port_of, spelled
from .readings import Readings, is_number, number_of, paths_of

_ANY, _WITHIN, _ADDRESS = r"[^\n]*", r"[^/\n]*", "[0-9a-f.:]*"
_ELSEWHERE = r"(?:(?:/|~[^/\n]*/|(?:\.\./)+|\$[^/\n]*/|[a-z]:/)(?:[^\n]*/)?)?"
"""The beginning of a path that leads from anywhere to one relative to the tool's directory."""
_PORTED = re.compile(r"(.*?)(?::([0-9]+))?", re.DOTALL)
_DOT = re.compile(r"(?<=[^\\.])\.$")
_HOST_FIRST = re.compile(r"(?:\*\*?\.)?[a-z0-9-]+(?:\.[a-z0-9-]+)+(?::[0-9]+)?/")
_DOWNWARD = r"(?:/|(?:\.\./)+)"
"""The beginning of a path that leads, or may lead, to the root."""


class LooseText:
    """A text compared with any spelling: upper or lower case, look-alike letters, equal numbers."""

    __slots__ = ("_expression", "_mail", "_path", "_url")

    def __init__(self, text: str) -> None:
        said = " ".join(skeleton(text).split())
        forms = {said, skeleton(text), *spelled(said), host_of(said), *([number_of(said)] if is_number(said) else [])}
        self._expression = _either(forms)
        self._path = _either(paths_of(said)) if re.search(r"[/\\]", said) else None
        self._mail = _found(_mail(_exactly(said))) if "@" in said else None
        self._url = _url(_exactly(said), "/?") if "://" in said else None

    def may_cover(self, value: Readings) -> bool:
        """Whether the value may be the text."""
        return (
            value.opaque
            or self._expression.found(value.lines)
            or (self._path is not None and self._path.found(value.paths))
            or (self._mail is not None and self._mail.found(value.mails))
            or (self._url is not None and (value.unclear_host or self._url.found(value.urls)))
        )


class LooseRegex:
    """A regular expression that is searched for in each reading, not matched whole."""

    __slots__ = ("_each", "_lines")

    def __init__(self, regex: Regex) -> None:
        self._each = regex
        self._lines = Regex(f"(?m:{regex.pattern})")

    def may_cover(self, value: Readings) -> bool:
        """Whether the expression is found in the value."""
        return (
            value.opaque
            or any(map(self._each.found, value.texts))
            or any(map(self._each.found, value.whole))
            or self._lines.found(value.lines)
            or self._lines.found(value.paths)
        )


class LooseGlob:
    """A glob that covers a value in any of its readings."""

    __slots__ = ("_hosts", "_lines", "_mails", "_named", "_paths", "_prefix", "_urls", "_words")

    def __init__(self, glob: Glob) -> None:
        self._lines = self._paths = self._words = self._hosts = self._urls = self._mails = self._named = None
        small = Glob(glob.text, tuple(_collapsed(part) for part in glob.parts), glob.stars)
        self._prefix = small.parts[0]
        several = any(char.isspace() for char in small.said)
        if "://" in glob.said:
            self._lines = _found(small.expression(_ANY))
            self._urls = _url(glob)
        elif is_domain_glob(domain := Glob.of(_DOT.sub("", glob.text.lower()))) or not glob.text.isascii():
            domain = domain if glob.text.isascii() else glob
            parts = tuple(map(_host_part, domain.parts)) if domain.stars else (canonical(domain.said),)
            self._lines = _found(small.expression(_ANY))
            self._hosts = _found(Glob(domain.text, parts, domain.stars).expression(_ANY))
        elif is_of_addresses(small.said):
            parts = small.parts if small.stars else (canonical(small.said),)
            self._lines = _found(small.expression(_ANY))
            self._hosts = _found(Glob(glob.text, parts, glob.stars).expression(_ADDRESS))
        elif not several and "/" in small.said:
            self._paths = self._words = _found(_path(small))
            place = glob.text.removeprefix("//")
            if _HOST_FIRST.match(place.lower()):
                self._urls = _url(Glob.of(f"http://{place}"))
        else:
            self._lines = _found(small.expression(_ANY))
            self._named = _found(Glob(glob.text, tuple(map(_host_part, small.parts)), glob.stars).expression(_ANY))
        if "@" in small.said and not several:
            self._mails = _found(_mail(small))
        if not several and self._paths is None and "://" not in glob.said:
            self._paths = _found(_path(small) if small.stars else _ELSEWHERE + small.expression(_ANY))

    def may_cover(self, value: Readings) -> bool:
        """Whether the glob covers the value in any reading of it."""
        return (
            value.opaque
            or (self._lines is not None and self._lines.found(value.lines))
            or (self._paths is not None and self._paths.found(value.paths))
            or (self._words is not None and (value.unclear_path or self._words.found(value.words)))
            or (self._hosts is not None and self._hosts.found(value.hosts))
            or (self._urls is not None and self._urls.found(value.urls))
            or (self._named is not None and self._named.found(value.authorities))
            or (self._mails is not None and self._mails.found(value.mails))
            or ((self._hosts is not None or self._urls is not None) and value.unclear_host)
            or self._may_go_on(value)
        )

    def _may_go_on(self, value: Readings) -> bool:
        """Whether a shell's substitutions may turn a word of the value into one that the glob covers."""
        return self._words is not None and self._prefix.strip() != "" and any(map(self._meets, value.cut_words))

    def _meets(self, cut: str) -> bool:
        return self._prefix.startswith(cut) or cut.startswith(self._prefix)


def _found(expression: str) -> Regex:
    return Regex(_line(expression))


def _either(forms: Iterable[str]) -> Regex:
    return Regex("|".join(_line(literal(form)) for form in sorted(set(forms)) if "\n" not in form))


def _line(expression: str) -> str:
    return f"\\n(?:{expression})\\n"


def _collapsed(part: str) -> str:
    return re.sub(r"\s+", " ", skeleton(part))


def _host_part(part: str) -> str:
    dots = (len(part) - len(part.lstrip(".")), len(part) - len(part.rstrip(".")))
    return "." * dots[0] + host_of(part) + ("." * dots[1] if part.strip(".") else "")


def _path(glob: Glob) -> str:
    """The expression of a path's glob; a glob for all in a folder also covers the folder."""
    expression = glob.expression(_WITHIN, _ANY).removeprefix(literal("./"))
    if glob.stars and glob.stars[-1] == "**" and glob.parts[-1] == "" and glob.parts[-2].endswith("/"):
        expression = expression[: -len(literal("/") + _ANY)] + f"(?:{literal('/')}{_ANY})?"
    if glob.said.startswith("/"):
        return _DOWNWARD + expression.removeprefix(literal("/"))
    return _ELSEWHERE + expression


def _mail(glob: Glob) -> str:
    local, at, host = glob.parts[-1].rpartition("@")
    parts = (*glob.parts[:-1], local + at + (canonical(host) if at else _host_part(host)))
    return Glob(glob.text, parts, glob.stars).expression(_ANY)


def _url(glob: Glob, pages: str = rf"(?:/{_ANY})?") -> Regex:
    """The expression of a URL's glob without its scheme; without a path it covers all of the host's pages."""
    place = Glob.of(glob.text.partition("://")[2])
    host, slash, path = place.parts[0].partition("/")
    parts = list(place.parts)
    if slash or not place.stars:
        name, port = _PORTED.fullmatch(host).groups()  # type: ignore[union-attr]  # it matches any text
        parts[0] = f"{canonical(name)}{port_of(port) if port else ''}{slash}{path}"
    for number in range(len(parts) if place.stars and not slash else 0):
        host, slash, path = parts[number].partition("/")
        parts[number] = _host_part(host) + slash + path
        if slash:
            break
    expression = Glob(place.text, tuple(map(_collapsed, parts)), place.stars).expression(_ANY)
    if place.said.endswith("/*") and place.stars:
        return _found(expression[: -len(literal("/") + _ANY)] + pages)
    return _found(expression + ("" if "/" in place.said else pages))


def _exactly(text: str) -> Glob:
    return Glob.of(re.sub(r"[*?\[\]{}\\]", r"\\\g<0>", text))
