"""Conditions in the reading of what denies or asks: whether a value may be meant, in whatever way it may be read."""

import re

from holdfast.conversation.folding import folded
from holdfast.conversation.glob import Glob
from holdfast.conversation.matching import is_domain_glob
from holdfast.conversation.regex import Regex, literal

from .readings import Readings, host_of, is_number, number_of

_ANY, _WITHIN = r"[^\n]*", r"[^/\n]*"
_ELSEWHERE = r"(?:(?:/|~[^/\n]*/|(?:\.\./)+|\$[^/\n]*/|[a-z]:/)(?:[^\n]*/)?)?"
"""What leads from anywhere to a path that is written from where the tool works."""
_DOWNWARD = r"(?:/|(?:\.\./)+)"
"""What leads to the root, or may."""


class LooseText:
    """A text that is compared with: in letters of whatever case or look, a number in whatever form."""

    __slots__ = ("_expression",)

    def __init__(self, text: str) -> None:
        said = " ".join(folded(text).split())
        forms = {said, folded(text), *([number_of(said)] if is_number(said) else [])}
        self._expression = Regex("|".join(_line(literal(form)) for form in sorted(forms) if "\n" not in form))

    def may_cover(self, value: Readings) -> bool:
        """Whether the value may be the text."""
        return value.opaque or self._expression.found(value.lines)


class LooseRegex:
    """A regular expression of which it is enough that a part matches, in any reading."""

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
        )


class LooseGlob:
    """A glob that covers whatever may be meant."""

    __slots__ = ("_hosts", "_lines", "_paths", "_prefix", "_several", "_urls", "_words")

    def __init__(self, glob: Glob) -> None:
        self._lines = self._paths = self._words = self._hosts = self._urls = None
        small = Glob(glob.text, tuple(_collapsed(part) for part in glob.parts), glob.stars)
        self._prefix = small.parts[0]
        self._several = any(char.isspace() for char in small.said)
        if "://" in glob.said:
            self._lines = _found(small.expression(_ANY))
            self._urls = _url(glob)
        elif is_domain_glob(Glob.of(glob.text.lower())) or not glob.text.isascii():
            hosts = Glob(glob.text, tuple(map(_host_part, glob.parts)), glob.stars)
            self._lines, self._hosts = _found(small.expression(_ANY)), _found(hosts.expression(_ANY))
        elif not self._several and "/" in small.said:
            self._paths = self._words = _found(_path(small))
        else:
            self._lines = _found(small.expression(_ANY))
        if not self._several and self._paths is None and "://" not in glob.said:
            self._paths = _found(_path(small) if small.stars else _ELSEWHERE + small.expression(_ANY))

    def may_cover(self, value: Readings) -> bool:
        """Whether the glob covers the value in any reading of it."""
        return (
            value.opaque
            or (self._lines is not None and self._lines.found(value.lines))
            or (self._paths is not None and self._paths.found(value.paths))
            or (self._words is not None and self._words.found(value.words))
            or (self._hosts is not None and self._hosts.found(value.hosts))
            or (self._urls is not None and self._urls.found(value.urls))
            or self._may_go_on(value)
        )

    def _may_go_on(self, value: Readings) -> bool:
        """Whether what a shell would put in may make it what the glob says."""
        if not self._prefix.strip():
            return False
        if not self._several:
            return self._words is not None and any(map(self._meets, value.cut_words))
        return value.commands.opaque or any(map(self._meets, value.commands.cut))

    def _meets(self, cut: str) -> bool:
        return self._prefix.startswith(cut) or cut.startswith(self._prefix)


def _found(expression: str) -> Regex:
    return Regex(_line(expression))


def _line(expression: str) -> str:
    return f"\\n(?:{expression})\\n"


def _collapsed(part: str) -> str:
    return re.sub(r"\s+", " ", folded(part))


def _host_part(part: str) -> str:
    dots = (len(part) - len(part.lstrip(".")), len(part) - len(part.rstrip(".")))
    return "." * dots[0] + host_of(part) + ("." * dots[1] if part.strip(".") else "")


def _path(glob: Glob) -> str:
    """The expression of a path's glob; what is about all in a folder is about the folder, too."""
    expression = glob.expression(_WITHIN, _ANY).removeprefix(literal("./"))
    if glob.stars and glob.stars[-1] == "**" and glob.parts[-1] == "" and glob.parts[-2].endswith("/"):
        expression = expression[: -len(literal("/") + _ANY)] + f"(?:{literal('/')}{_ANY})?"
    if glob.said.startswith("/"):
        return _DOWNWARD + expression.removeprefix(literal("/"))
    return _ELSEWHERE + expression


def _url(glob: Glob) -> Regex:
    """The expression of a URL's glob without its scheme; without a path it is about all of the host's pages."""
    place = Glob.of(glob.text.partition("://")[2])
    host, slash, _ = place.parts[0].partition("/")
    parts = (host_of(host) + slash + place.parts[0].partition("/")[2], *place.parts[1:])
    expression = Glob(place.text, tuple(map(_collapsed, parts)), place.stars).expression(_ANY)
    if place.said.endswith("/*") and place.stars:
        return _found(expression[: -len(literal("/") + _ANY)] + f"(?:/{_ANY})?")
    return _found(expression + ("" if "/" in place.said else f"(?:/{_ANY})?"))
