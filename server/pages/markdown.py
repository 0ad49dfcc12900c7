"""Markdown of models and people as HTML that can do no harm: no HTML of theirs, no picture from elsewhere, no script.

Two walls stand one behind the other: the renderer writes out none of the text's own HTML, and what it writes is cleaned against
a short list of elements and attributes.
"""

from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import Markup, escape

from .text import visible

LONGEST = 16_384
"""How many characters are rendered; a longer text is shown as it is, since rendering takes time with its length."""
MOST_BARS = 400
"""How many bars a text with tables may have: each cell of a row that is left out is drawn, too."""
_TAGS = frozenset(
    "p br hr strong em s code pre blockquote ul ol li table thead tbody tr th td a".split()  # noqa: SIM905
)
_SCHEMES = frozenset({"http", "https", "mailto"})


def markdown(text: str) -> Markup:
    """The HTML of a text in markdown. Every character of it is seen, and links lead away in a tab of their own."""
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
    return Markup(html)  # noqa: S704 - this is what was cleaned


def _seen(state: StateCore) -> None:
    """Escape what the renderer has made of entities, and have headings be strong lines: they are none of the page's."""
    for before, token in zip([None, *state.tokens], state.tokens, strict=False):
        if token.type in ("heading_open", "heading_close"):
            token.tag = "p"
        for inner in token.children or ():
            inner.content = visible(inner.content)
            inner.attrs.pop("title", None)
        if before is not None and before.type == "heading_open":
            token.children = [Token("strong_open", "strong", 1), *(token.children or ()), Token("strong_close", "strong", -1)]


def _made(**rules: Any) -> MarkdownIt:
    found = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False, "maxNesting": 20})
    found.enable(["strikethrough", *rules.get("more", ())]).disable(["image"])
    found.core.ruler.push("seen", _seen)
    return found


_renderer, _plain = _made(more=["table"]), _made()
