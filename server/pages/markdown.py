"""Markdown of models and people as HTML that can do no harm: no HTML of theirs, no picture from elsewhere, no script.

Two walls stand one behind the other: the renderer writes out none of the text's own HTML, and what it writes is cleaned against
a short list of elements and attributes.
"""

from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markupsafe import Markup, escape

from .text import visible

LONGEST = 16_384
"""How many characters are rendered; a longer text is shown as it is, since rendering takes time with its length."""
MOST_BARS = 400
"""How many bars a text with tables may have: each cell of a row that is left out is drawn, too."""
_TAGS = frozenset(
    "p br hr h1 h2 h3 h4 h5 h6 strong em s code pre blockquote ul ol li table thead tbody tr th td a".split()  # noqa: SIM905
)
_SCHEMES = frozenset({"http", "https", "mailto"})
_HEADINGS = {"h1": "h4", "h2": "h5"}
"""What stands for the headings of a text, which are below those of the page; `h6` for all others."""


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
    """Escape what the renderer has made of entities, and put the headings below those of the page."""
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = _HEADINGS.get(token.tag, "h6")
        for inner in token.children or ():
            inner.content = visible(inner.content)
            inner.attrs.pop("title", None)


def _made(**rules: Any) -> MarkdownIt:
    found = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False, "maxNesting": 20})
    found.enable(["strikethrough", *rules.get("more", ())]).disable(["image"])
    found.core.ruler.push("seen", _seen)
    return found


_renderer, _plain = _made(more=["table"]), _made()
