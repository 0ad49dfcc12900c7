"""Markdown of models and people as safe HTML: none of their own HTML, no remote pictures, no scripts.

Two defences stand one behind the other: the renderer writes out no HTML of the text, and its output is cleaned against a short
list of elements and attributes.
"""

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import Markup, escape

from holdfast.client.inbox.text import visible

LONGEST = 16_384
"""The most characters that are rendered; a longer text is shown as plain text, since rendering takes time."""
MOST_BARS = 400
"""The most bars in a text with tables: omitted cells of a row are drawn, too."""
_TAGS = frozenset(
    "p br hr strong em s code pre blockquote ul ol li table thead tbody tr th td a".split()  # noqa: SIM905
)
_SCHEMES = frozenset({"http", "https", "mailto"})


def markdown(text: str) -> Markup:
    """The HTML of a text in markdown. Every character is visible, and links open a tab of their own."""
    if len(text) > LONGEST:
        return Markup('<pre class="text" tabindex="0">') + escape(visible(text)) + Markup("</pre>")
    renderer = _plain if text.count("|") > MOST_BARS else _renderer
    html = nh3.clean(
        renderer.render(visible(text)),
        tags=set(_TAGS),
        attributes={"a": {"href"}, "ol": {"start"}},
        url_schemes=set(_SCHEMES),
        url_relative="deny",
        set_tag_attribute_values={"a": {"target": "_blank"}},
        link_rel="noopener noreferrer nofollow",
    )
    return Markup(html)  # noqa: S704 - the cleaned HTML


def _seen(state: StateCore) -> None:
    """Escape the characters that entities stood for, and turn headings into bold lines: they are not the page's."""
    for before, token in zip([None, *state.tokens], state.tokens, strict=False):
        if token.type in ("heading_open", "heading_close"):
            token.tag = "p"
        for inner in token.children or ():
            inner.content = visible(inner.content)
            inner.attrs.pop("title", None)
        if before is not None and before.type == "heading_open":
            token.children = [Token("strong_open", "strong", 1), *(token.children or ()), Token("strong_close", "strong", -1)]


def _made(*more: str) -> MarkdownIt:
    found = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False, "maxNesting": 20})
    found.enable(["strikethrough", *more]).disable(["image"])
    found.core.ruler.push("seen", _seen)
    return found


_renderer, _plain = _made("table"), _made()
