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


class _Sought:
    """Expressions by the haystack of `Readings` in which each is searched."""

    __slots__ = ("_sought",)
    _sought: dict[str, Regex]

    def _is_found(self, value: Readings) -> bool:
        for haystack, regex in () if value.opaque else self._sought.items():
            if regex.found(getattr(value, haystack)):
                return True
        return value.opaque


class LooseText(_Sought):
    """A text compared with any spelling: upper or lower case, look-alike letters, equal numbers."""

    __slots__ = ()

    def __init__(self, text: str) -> None:
        said = " ".join(skeleton(text).split())
        forms = {said, skeleton(text), *spelled(said), host_of(said), *([number_of(said)] if is_number(said) else [])}
        self._sought = {"lines": _either(forms)}
        if re.search(r"[/\\]", said):
            self._sought["paths"] = _either(paths_of(said))
        if "@" in said:
            self._sought["mails"] = _found(_mail(_exactly(said)))
        if "://" in said:
            self._sought["urls"] = _url(_exactly(said), "/?")

    def may_cover(self, value: Readings) -> bool:
        """Whether the value may be the text."""
        return self._is_found(value) or ("urls" in self._sought and value.unclear_host)


class LooseRegex(_Sought):
    """A regular expression that is searched for in each reading, not matched whole."""

    __slots__ = ("_each",)

    def __init__(self, regex: Regex) -> None:
        self._each = regex
        self._sought = dict.fromkeys(("lines", "paths"), Regex(f"(?m:{regex.pattern})"))

    def may_cover(self, value: Readings) -> bool:
        """Whether the expression is found in the value."""
        return any(map(self._each.found, (*value.texts, *value.whole))) or self._is_found(value)


class LooseGlob(_Sought):
    """A glob that covers a value in any of its readings."""

    __slots__ = ("_prefix",)

    def __init__(self, glob: Glob) -> None:
        small = Glob(glob.text, tuple(_collapsed(part) for part in glob.parts), glob.stars)
        self._prefix = small.parts[0]
        self._sought = {"lines": _found(small.expression(_ANY))}
        several = any(char.isspace() for char in small.said)
        is_path = "://" not in glob.said and not several
        if "://" in glob.said:
            self._sought["urls"] = _url(glob)
        elif is_domain_glob(domain := Glob.of(_DOT.sub("", glob.text.lower()))) or not glob.text.isascii():
            domain = domain if glob.text.isascii() else glob
            parts = tuple(map(_host_part, domain.parts)) if domain.stars else (canonical(domain.said),)
            self._sought["hosts"] = _found(Glob(domain.text, parts, domain.stars).expression(_ANY))
        elif is_of_addresses(small.said):
            parts = small.parts if small.stars else (canonical(small.said),)
            self._sought["hosts"] = _found(Glob(glob.text, parts, glob.stars).expression(_ADDRESS))
        elif is_path and "/" in small.said:
            self._sought = dict.fromkeys(("paths", "words"), _found(_path(small)))
            place = glob.text.removeprefix("//")
            if _HOST_FIRST.match(place.lower()):
                self._sought["urls"] = _url(Glob.of(f"http://{place}"))
        else:
            parts = tuple(map(_host_part, small.parts))
            self._sought["authorities"] = _found(Glob(glob.text, parts, glob.stars).expression(_ANY))
        if "@" in small.said and not several:
            self._sought["mails"] = _found(_mail(small))
        if is_path and "paths" not in self._sought:
            self._sought["paths"] = _found(_path(small) if small.stars else _ELSEWHERE + small.expression(_ANY))

    def may_cover(self, value: Readings) -> bool:
        """Whether the glob covers the value in any reading of it."""
        return (
            self._is_found(value)
            or ("words" in self._sought and (value.unclear_path or self._may_go_on(value)))
            or (value.unclear_host and not self._sought.keys().isdisjoint(("hosts", "urls")))
        )

    def _may_go_on(self, value: Readings) -> bool:
        """Whether a shell's substitutions may turn a word of the value into one that the glob covers."""
        cuts = value.cut_words if self._prefix.strip() else ()
        return any(self._prefix.startswith(cut) or cut.startswith(self._prefix) for cut in cuts)


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
