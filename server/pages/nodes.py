"""The HTML of a template as nodes: `[tag, {attribute: value}, child, …]`; a child is a node or a text.

A page of an application makes elements from them one by one, so no policy has to let it turn text into HTML.
"""

from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any, TypeAlias

Node: TypeAlias = str | list[Any]
_VOID = ("input", "br")
_EXACT = ("textarea", "pre")
"""Elements in which blanks and line breaks count."""


def nodes_of(html: str) -> Sequence[Node]:
    """The nodes of well-formed HTML, without the blanks between elements that only lay out its source."""
    parser = _Parser()
    parser.feed(html)
    parser.close()
    return parser.found


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[Node] = []
        self._open: list[list[Any]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = [tag, {name: value or "" for name, value in attrs}]
        self._add(node)
        if tag not in _VOID:
            self._open.append(node)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        within = self._open[-1][0] if self._open else ""
        if within == "textarea" and len(self._open[-1]) == 2:  # noqa: PLR2004 - HTML ignores its first line break
            data = data.removeprefix("\n")
        if within in _EXACT or data.strip() or (data and "\n" not in data):
            self._add(data)

    def _add(self, node: Node) -> None:
        (self._open[-1] if self._open else self.found).append(node)
